# Headers that are parsed once and not by every source. They change nothing that a source sees: each still includes what
# it uses, and the preset lint, which compiles every header by itself, does without them.

option(LOWGEAR_PRECOMPILED_HEADERS "Parse the headers of libraries once (some 130 MB of disk for each kind of code)" ON)

set(lowgear_standard_headers
    <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <deque> <filesystem> <fstream> <functional> <limits> <map>
    <memory> <mutex> <numeric> <optional> <random> <ranges> <set> <span> <sstream> <string> <string_view> <system_error>
    <thread> <tuple> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

# lowgear_precompile(TARGET [HEADER...]): the standard headers, and these, are parsed once for the target.
function(lowgear_precompile target)
  if(LOWGEAR_PRECOMPILED_HEADERS)
    list(TRANSFORM lowgear_standard_headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>" OUTPUT_VARIABLE headers)
    list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>" OUTPUT_VARIABLE more)
    target_precompile_headers(${target} PRIVATE ${headers} ${more})
  endif()
endfunction()

# lowgear_share_precompiled(TARGET OWNER): the target takes what was parsed for OWNER, whose compile options are the same.
function(lowgear_share_precompiled target owner)
  if(LOWGEAR_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# Owners of what many share: modules that compute (LOWGEAR_PURE_MODULES), other modules, programs (benchmarks and those
# that tests start), and tests. Their code is optimised differently (LowgearModule.cmake), and what was parsed for one kind
# does not serve another.
function(lowgear_add_precompiled)
  set(source ${PROJECT_SOURCE_DIR}/cmake/empty.cpp)
  foreach(kind IN ITEMS pure module)
    add_library(lowgear_precompiled_${kind} STATIC ${source})
    target_link_libraries(lowgear_precompiled_${kind} PRIVATE fmt::fmt nlohmann_json::nlohmann_json lowgear_build_flags
                                                              lowgear_${kind}_flags)
    lowgear_precompile(lowgear_precompiled_${kind} <nlohmann/json.hpp>)
  endforeach()
  if(LOWGEAR_BUILD_TESTS OR LOWGEAR_BUILD_BENCH)
    add_executable(lowgear_precompiled_program ${PROJECT_SOURCE_DIR}/cmake/empty_program.cpp)
    target_link_libraries(lowgear_precompiled_program PRIVATE fmt::fmt nlohmann_json::nlohmann_json lowgear_build_flags
                                                              lowgear_program_flags)
    set_target_properties(lowgear_precompiled_program PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles)
    lowgear_precompile(lowgear_precompiled_program <nlohmann/json.hpp>)
  endif()
  if(LOWGEAR_BUILD_TESTS)
    add_executable(lowgear_precompiled_test ${source})
    target_link_libraries(lowgear_precompiled_test PRIVATE fmt::fmt nlohmann_json::nlohmann_json lowgear_build_flags
                                                           lowgear_test_flags GTest::gmock GTest::gtest_main)
    set_target_properties(lowgear_precompiled_test PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles)
    lowgear_precompile(lowgear_precompiled_test <nlohmann/json.hpp> <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endfunction()

# One warning and sanitizer policy for every target, and one way to declare a module and its tests.

add_library(lowgear_build_flags INTERFACE)
set(lowgear_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                     $<$<BOOL:${LOWGEAR_WERROR}>:-Werror>)
target_compile_options(lowgear_build_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${lowgear_warnings}>")
# g++ collects garbage from 512 MiB on, in place of 100: a tenth of its time, for at most 120 MB more of memory.
target_compile_options(lowgear_build_flags INTERFACE
                       "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:--param=ggc-min-heapsize=524288>")
# Two warnings of g++ 12 depend on how it has inlined and are often wrong when optimising: it takes an empty
# std::optional for a value that is read, and "a" + std::string for overlapping memory (GCC bug 105651). The sanitizers
# and clang's analyzer look for the same mistakes.
target_compile_options(lowgear_build_flags INTERFACE
                       "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized;-Wno-restrict>")
target_compile_definitions(lowgear_build_flags INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
if(LOWGEAR_SANITIZE)
  target_compile_options(lowgear_build_flags INTERFACE -fsanitize=${LOWGEAR_SANITIZE} -fno-sanitize-recover=all
                                                       -fno-omit-frame-pointer)
  target_link_options(lowgear_build_flags INTERFACE -fsanitize=${LOWGEAR_SANITIZE})
endif()

include(LowgearUnity)

# How hard the compiler works in release builds: on what computes, on everything else, on the command line and other
# programs, which take longer to compile than to run, and on tests, which compute in the modules and not in their own code.
add_library(lowgear_pure_flags INTERFACE)
add_library(lowgear_module_flags INTERFACE)
target_compile_options(lowgear_module_flags INTERFACE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O2>")
add_library(lowgear_program_flags INTERFACE)
target_compile_options(lowgear_program_flags INTERFACE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
# Tests and small programs are linked by the fastest linker that is here, what is installed by the compiler's own.
include(CheckLinkerFlag)
add_library(lowgear_fast_link INTERFACE)
foreach(linker IN ITEMS lld gold)
  check_linker_flag(CXX -fuse-ld=${linker} LOWGEAR_LINKS_WITH_${linker})
  if(LOWGEAR_LINKS_WITH_${linker})
    target_link_options(lowgear_fast_link INTERFACE -fuse-ld=${linker})
    break()
  endif()
endforeach()
add_library(lowgear_test_flags INTERFACE)
target_link_libraries(lowgear_test_flags INTERFACE lowgear_fast_link)
target_compile_options(lowgear_test_flags INTERFACE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O0>")

# lowgear_module(NAME SOURCES a.cpp... [DEPENDS core...] [LIBRARIES target...] [PRECOMPILED header...]
#                [PRECOMPILED_AS module] [APART c.cpp...] [TOGETHER room|none] [FLAGS pure|program])
# A folder of src/ as the static library lowgear_NAME. DEPENDS names the modules that its headers and sources include;
# they stand above it in layers.txt. PRECOMPILED names large headers of libraries that most of its sources include,
# PRECOMPILED_AS a module whose PRECOMPILED serve this one, too; APART names sources that cannot be compiled together with
# others (LowgearUnity.cmake). A folder may declare parts of its module before it, each a library of its own, for programs
# that do without the rest; the module depends on them. TOGETHER: only those of one folder are compiled together (room), or
# none, as a library that loads into any process (lowgear_loadable) takes some of its objects and must not get what the
# others need. FLAGS pure: such a part is compiled as a pure module. FLAGS program: compiled as the command line is; such a
# module needs PRECOMPILED or PRECOMPILED_AS.
function(lowgear_module name)
  cmake_parse_arguments(ARG "" "FLAGS;PRECOMPILED_AS;TOGETHER" "SOURCES;DEPENDS;LIBRARIES;PRECOMPILED;APART" ${ARGN})
  set(kind module)
  if(ARG_FLAGS)
    set(kind ${ARG_FLAGS})
  elseif(name IN_LIST LOWGEAR_PURE_MODULES)
    set(kind pure)
  endif()
  foreach(dependency IN LISTS ARG_DEPENDS)
    if(NOT TARGET lowgear_${dependency})
      message(FATAL_ERROR "module ${name} depends on ${dependency}: no module above it in cmake/layers.txt that has a "
                          "CMakeLists.txt")
    endif()
  endforeach()
  add_library(lowgear_${name} STATIC ${ARG_SOURCES})
  # So that also a build of one target checks what it is made of.
  add_dependencies(lowgear_${name} check_layers check_names)
  lowgear_compile_together(lowgear_${name} SOURCES ${ARG_SOURCES} APART ${ARG_APART} TOGETHER ${ARG_TOGETHER})
  # A part of a module leaves the headers to the module.
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  set(headers)
  if(name STREQUAL folder)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  endif()
  target_sources(lowgear_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
  list(TRANSFORM ARG_DEPENDS PREPEND lowgear_)
  target_link_libraries(lowgear_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LIBRARIES}
                        PRIVATE lowgear_build_flags lowgear_${kind}_flags)
  if(ARG_PRECOMPILED)
    lowgear_precompile(lowgear_${name} ${ARG_PRECOMPILED})
  elseif(ARG_PRECOMPILED_AS)
    lowgear_share_precompiled(lowgear_${name} lowgear_${ARG_PRECOMPILED_AS})
  else()
    lowgear_share_precompiled(lowgear_${name} lowgear_precompiled_${kind})
  endif()
endfunction()

# Places that a test that computes takes of those that `ctest --parallel` gives; one that mostly waits takes one. ./dev test
# gives four for each core.
set(LOWGEAR_TEST_PLACES 2)

# lowgear_test(MODULE SOURCES a_test.cpp... [DEPENDS module...] [LIBRARIES target...] [PRECOMPILED header...]
#              [APART b_test.cpp...] [BY_SUITE])
# One test binary per module, MODULE_tests; every TEST becomes one ctest entry, MODULE.Suite.Test. The names carry no
# printed parameters: GoogleTest prints structs as bytes, which differ from run to run. BY_SUITE, for a
# program that takes long to start: every suite becomes one entry, MODULE.Suite.
function(lowgear_test module)
  cmake_parse_arguments(ARG "BY_SUITE" "" "SOURCES;DEPENDS;LIBRARIES;PRECOMPILED;APART" ${ARGN})
  add_executable(${module}_tests ${ARG_SOURCES})
  lowgear_compile_together(${module}_tests SOURCES ${ARG_SOURCES} APART ${ARG_APART} MOST ${LOWGEAR_UNITY_TESTS})
  list(TRANSFORM ARG_DEPENDS PREPEND lowgear_)
  target_link_libraries(${module}_tests PRIVATE lowgear_${module} ${ARG_DEPENDS} ${ARG_LIBRARIES} lowgear_build_flags
                                                lowgear_test_flags GTest::gmock GTest::gtest_main)
  if(NOT ARG_PRECOMPILED)
    lowgear_share_precompiled(${module}_tests lowgear_precompiled_test)
  else()
    lowgear_precompile(${module}_tests <gmock/gmock.h> <gtest/gtest.h> ${ARG_PRECOMPILED})
  endif()
  target_include_directories(${module}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${module}_tests PRIVATE LOWGEAR_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT ARG_BY_SUITE)
    gtest_discover_tests(${module}_tests TEST_PREFIX "${module}." NO_PRETTY_VALUES DISCOVERY_TIMEOUT 1800
                         PROPERTIES PROCESSORS ${LOWGEAR_TEST_PLACES})
    return()
  endif()
  set(entries ${CMAKE_CURRENT_BINARY_DIR}/${module}_suites.cmake)
  add_custom_command(TARGET ${module}_tests POST_BUILD BYPRODUCTS ${entries}
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${module}_tests> -D PREFIX=${module}. -D FILE=${entries}
            -D PROCESSORS=${LOWGEAR_TEST_PLACES} -P ${PROJECT_SOURCE_DIR}/cmake/discover_suites.cmake)
  # A program that was not built fails as a test.
  set(included ${CMAKE_CURRENT_BINARY_DIR}/${module}_included.cmake)
  file(WRITE ${included} "if(EXISTS \"${entries}\")\n  include(\"${entries}\")\nelse()\n"
                         "  add_test(${module}_tests_NOT_BUILT ${module}_tests_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${included})
endfunction()

# lowgear_small_program(TARGET): compiled as quickly as a program can be that computes in the modules, for benchmarks and
# for what tests start.
function(lowgear_small_program target)
  target_link_libraries(${target} PRIVATE fmt::fmt nlohmann_json::nlohmann_json lowgear_build_flags lowgear_program_flags
                                          lowgear_fast_link)
  lowgear_share_precompiled(${target} lowgear_precompiled_program)
endfunction()

# lowgear_loadable(TARGET MODULE EXPORTS [SOURCES a.cpp...] [STATIC libx.a...])
# A module as a shared library that loads into any process: it brings the C++ library, fmt and OpenSSL along, and the archives
# STATIC whole, which stand in for the shared libraries that its modules are linked with. It needs only the C library, of glibc
# 2.31 or newer, and shows only the symbols that the version script EXPORTS names.
function(lowgear_loadable target module exports)
  cmake_parse_arguments(ARG "" "" "SOURCES;STATIC" ${ARGN})
  set(script ${CMAKE_CURRENT_SOURCE_DIR}/${exports})
  add_library(${target} SHARED ${ARG_SOURCES} $<TARGET_OBJECTS:lowgear_own_fmt>)
  if(ARG_SOURCES)
    lowgear_compile_together(${target} SOURCES ${ARG_SOURCES})
  endif()
  target_link_libraries(${target} PRIVATE -Wl,--as-needed -Wl,--whole-archive lowgear_${module} ${ARG_STATIC}
                                          -Wl,--no-whole-archive lowgear_build_flags)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script} -Wl,--no-undefined)
  if(NOT LOWGEAR_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
    lowgear_link_old_glibc(${target})
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" LINK_DEPENDS ${script} LOWGEAR_STANDS_ALONE ON)
endfunction()

# lowgear_python_test(MODULE.NAME [words...] [COST seconds] [WAITS] [WITH thing...] [ENVIRONMENT NAME=value...])
# A test in Python: words for the interpreter, a script of this folder first; without any, NAME_test.py. WITH names what
# it finds in its environment: `package` (python/ on its path), and as LOWGEAR_BINARY, LOWGEAR_LIBRARY,
# LOWGEAR_PLANNING_LIBRARY, LOWGEAR_NVML, LOWGEAR_TRAINER and LOWGEAR_SAMPLER the files of `binary`, `library`,
# `planning_library`, `nvml`, `trainer` and `sampler`. A test that ends with 77 is skipped. COST is about how long it
# takes, more where it computes: ctest begins with the largest, and what computes should run with what waits. WAITS: it
# computes little, mostly waits for programs, and holds on a busy machine.
set(lowgear_file_of_binary lowgear)
set(lowgear_file_of_library liblowgear)
set(lowgear_file_of_planning_library liblowgear_planning)
set(lowgear_file_of_nvml lowgear_nvml)
set(lowgear_file_of_trainer lowgear_trainer_program)
set(lowgear_file_of_sampler lowgear_sampler_program)
function(lowgear_python_test test)
  cmake_parse_arguments(ARG "WAITS" "COST" "WITH;ENVIRONMENT" ${ARGN})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(words ${ARG_UNPARSED_ARGUMENTS})
  if(NOT words)
    string(REGEX REPLACE "^[^.]*[.]" "" name ${test})
    set(words ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.py)
  endif()
  set(environment PYTHONDONTWRITEBYTECODE=1 ${ARG_ENVIRONMENT})
  foreach(thing IN LISTS ARG_WITH)
    if(thing STREQUAL "package")
      list(APPEND environment PYTHONPATH=${PROJECT_SOURCE_DIR}/python)
    elseif(DEFINED lowgear_file_of_${thing})
      string(TOUPPER ${thing} variable)
      list(APPEND environment LOWGEAR_${variable}=$<TARGET_FILE:${lowgear_file_of_${thing}}>)
    else()
      message(FATAL_ERROR "test ${test}: WITH knows no ${thing}")
    endif()
  endforeach()
  add_test(NAME ${test} COMMAND Python3::Interpreter ${words})
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
  if(ARG_COST)
    set_tests_properties(${test} PROPERTIES COST ${ARG_COST})
  endif()
  if(NOT ARG_WAITS)
    set_tests_properties(${test} PROPERTIES PROCESSORS ${LOWGEAR_TEST_PLACES})
  endif()
endfunction()

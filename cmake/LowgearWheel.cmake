# The wheel for Python (docs/deploying.md): the package, the command and the libraries, for systems with glibc 2.31 or
# newer. `./dev wheel` builds it by the preset of the packages.
find_package(Python3 COMPONENTS Interpreter)
if(NOT TARGET lowgear_portable OR NOT Python3_FOUND)
  return()
endif()

# What is compiled in has licences that ask to be passed on.
set(lowgear_notices --notice Lowgear=${PROJECT_SOURCE_DIR}/LICENSE --notice d3=${PROJECT_SOURCE_DIR}/deploy/debian/copyright)
foreach(package libboost1.74-dev libcli11-dev libeigen3-dev libfmt-dev libpcre2-dev libspdlog-dev libsqlite3-dev
                libssl-dev libstdc++-12-dev libyaml-cpp-dev nlohmann-json3-dev)
  set(notice /usr/share/doc/${package}/copyright)
  if(EXISTS ${notice})
    list(APPEND lowgear_notices --notice ${package}=${notice})
  endif()
endforeach()

set(lowgear_wheel ${PROJECT_BINARY_DIR}/wheel)
set(lowgear_stripped ${lowgear_wheel}.stripped)
add_custom_target(lowgear_wheel
  COMMAND ${CMAKE_COMMAND} -E make_directory ${lowgear_stripped}
  COMMAND ${CMAKE_STRIP} -o ${lowgear_stripped}/liblowgear.so.1 $<TARGET_FILE:liblowgear>
  COMMAND ${CMAKE_STRIP} -o ${lowgear_stripped}/liblowgear_planning.so $<TARGET_FILE:liblowgear_planning>
  COMMAND ${CMAKE_STRIP} -o ${lowgear_stripped}/libnvidia-ml.so.1 $<TARGET_FILE:lowgear_nvml>
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/python/platform_wheel.py --out ${lowgear_wheel}
          --command $<TARGET_FILE:lowgear_portable> --library ${lowgear_stripped}/liblowgear.so.1
          --planning-library ${lowgear_stripped}/liblowgear_planning.so
          --simulated-nvml ${lowgear_stripped}/libnvidia-ml.so.1 ${lowgear_notices}
  DEPENDS lowgear_portable liblowgear liblowgear_planning lowgear_nvml
  COMMENT "Writing the wheel"
  VERBATIM)

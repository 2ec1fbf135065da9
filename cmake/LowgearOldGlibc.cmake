# Lets shared libraries that are built with a newer C library load with glibc 2.31 (Debian 11, Ubuntu 20.04), whose
# containers many training images are made of, and a program start there.
#
# A linker takes the newest version of each function. For those that have moved to libc.so.6 since (2.34: threads and
# dlopen) it is shown libraries without content that have the old versions, as a linker on glibc 2.31 would find them.
# cmake/old_glibc.cpp stands in for what an old C library does not have.
# tests/cmake/old_glibc_test.sh compares the result with 2.31.

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(lowgear_glibc_base GLIBC_2.2.5)
else()
  set(lowgear_glibc_base GLIBC_2.17)  # the first for 64-bit ARM
endif()

# lowgear_old_library(FILE SYMBOLS VERSION:name...)
# The library without content FILE, as old versions of it show these symbols.
function(lowgear_old_library file)
  set(code "")
  set(versions "")
  foreach(symbol IN LISTS ARGN)
    string(REPLACE ":" ";" parts "${symbol}")
    list(GET parts 0 version)
    list(GET parts 1 name)
    string(APPEND code "void ${name}(void) {}\n")
    list(APPEND versions ${version})
    string(APPEND symbols_${version} " ${name};")
  endforeach()
  list(REMOVE_DUPLICATES versions)
  set(script "")
  foreach(version IN LISTS versions)
    string(APPEND script "${version} { global:${symbols_${version}} local: *; };\n")
  endforeach()
  set(folder ${PROJECT_BINARY_DIR}/old_glibc)
  file(CONFIGURE OUTPUT ${folder}/${file}.c CONTENT "${code}" @ONLY)
  file(CONFIGURE OUTPUT ${folder}/${file}.map CONTENT "${script}" @ONLY)
  add_custom_command(
    OUTPUT ${folder}/${file}
    COMMAND ${CMAKE_CXX_COMPILER} -x c -w -fno-builtin -shared -nostdlib -fPIC ${folder}/${file}.c -o ${folder}/${file}
            -Wl,-soname,${file} -Wl,--version-script=${folder}/${file}.map
    DEPENDS ${folder}/${file}.c ${folder}/${file}.map
    COMMENT "Building ${file} as of glibc 2.31" VERBATIM)
endfunction()

set(lowgear_old_threads
    pthread_create pthread_join pthread_detach pthread_once __pthread_key_create pthread_key_create pthread_key_delete
    pthread_getspecific pthread_setspecific pthread_mutex_trylock pthread_mutexattr_init pthread_mutexattr_destroy
    pthread_mutexattr_setpshared pthread_mutexattr_settype pthread_rwlock_init pthread_rwlock_destroy
    pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_rwlock_unlock pthread_sigmask)
list(TRANSFORM lowgear_old_threads PREPEND "${lowgear_glibc_base}:")
if(lowgear_glibc_base STREQUAL "GLIBC_2.2.5")
  set(lowgear_robust GLIBC_2.12)
  set(lowgear_dlinfo GLIBC_2.3.3)
  set(lowgear_setclock GLIBC_2.3.3)
else()
  set(lowgear_robust ${lowgear_glibc_base})
  set(lowgear_dlinfo ${lowgear_glibc_base})
  set(lowgear_setclock ${lowgear_glibc_base})
endif()
lowgear_old_library(libpthread.so.0 ${lowgear_old_threads} ${lowgear_robust}:pthread_mutexattr_setrobust
                    ${lowgear_robust}:pthread_mutex_consistent ${lowgear_robust}:pthread_setname_np
                    ${lowgear_setclock}:pthread_condattr_setclock GLIBC_2.30:pthread_cond_clockwait
                    GLIBC_2.30:pthread_mutex_clocklock)
lowgear_old_library(libdl.so.2 ${lowgear_glibc_base}:dlopen ${lowgear_glibc_base}:dlclose ${lowgear_glibc_base}:dlsym
                    ${lowgear_glibc_base}:dlerror ${lowgear_glibc_base}:dladdr
                    ${lowgear_dlinfo}:dlinfo)
set(lowgear_old_libraries ${PROJECT_BINARY_DIR}/old_glibc/libpthread.so.0 ${PROJECT_BINARY_DIR}/old_glibc/libdl.so.2)
add_custom_target(lowgear_old_glibc DEPENDS ${lowgear_old_libraries})

# lowgear_link_old_glibc(TARGET)
# Named to the linker as files and not as targets: nothing may look for them when the library is loaded.
function(lowgear_link_old_glibc target)
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/old_glibc.cpp)
  add_dependencies(${target} lowgear_old_glibc)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${lowgear_old_libraries})
  list(TRANSFORM lowgear_old_libraries PREPEND "LINKER:" OUTPUT_VARIABLE files)
  target_link_options(${target} PRIVATE LINKER:--push-state,--no-as-needed ${files} LINKER:--pop-state)
endfunction()

# fmt for what brings it along, compiled once.
add_library(lowgear_own_fmt OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/fmt_implementation.cpp)
target_link_libraries(lowgear_own_fmt PRIVATE fmt::fmt lowgear_build_flags lowgear_module_flags)

# lowgear_portable_program(TARGET SOURCES a.cpp... LIBRARIES target... STATIC libx.a...)
# A program that runs with glibc 2.31 or newer and needs nothing else: it brings the C++ library, fmt, spdlog and OpenSSL along,
# and the archives STATIC whole, which stand in for the shared libraries that its modules are linked with. Shared
# libraries that none of its objects calls are not asked for when it is started.
function(lowgear_portable_program target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;STATIC" ${ARGN})
  set(exports ${PROJECT_SOURCE_DIR}/cmake/no_exports.map)
  add_executable(${target} ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/cmake/old_start.cpp $<TARGET_OBJECTS:lowgear_own_fmt>
                           ${PROJECT_SOURCE_DIR}/cmake/spdlog_implementation.cpp)
  target_link_libraries(${target} PRIVATE -Wl,--as-needed -Wl,--whole-archive ${ARG_STATIC} -Wl,--no-whole-archive
                                          ${ARG_LIBRARIES} lowgear_build_flags)
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:--wrap=__libc_start_main
                                        LINKER:--version-script=${exports} LINKER:--gc-sections -s)
  lowgear_link_old_glibc(${target})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${exports})
  set_property(TARGET ${target} PROPERTY LOWGEAR_STANDS_ALONE ON)
endfunction()

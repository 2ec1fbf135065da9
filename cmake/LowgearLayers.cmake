# Reads cmake/layers.txt, the one place that says which modules there are and which may use which:
#   LOWGEAR_MODULES               names of the modules that have a folder in src/, in the order of the list
#   LOWGEAR_MODULE_FOLDER_<name>  the folder of each, below src/: WING/MODULE, or MODULE
#   LOWGEAR_PURE_MODULES          core and those of them marked pure: all that fuzz targets and benchmarks link
# and has every build, also that of one target, check the includes against it (target check_layers), and that each module
# defines its names in its namespace, each type once (target check_names).

set(lowgear_layers_file ${CMAKE_CURRENT_LIST_DIR}/layers.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${lowgear_layers_file})
file(STRINGS ${lowgear_layers_file} lowgear_layers REGEX "^[a-z_]")
list(FILTER lowgear_layers EXCLUDE REGEX "^only ")
# A glob only so that a new module makes CMake configure again; the order comes from the list.
file(GLOB lowgear_module_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/CMakeLists.txt
     ${PROJECT_SOURCE_DIR}/src/*/*/CMakeLists.txt)

# For machines that have what some modules need and not what others do: a GPU machine builds the trainer alone.
set(LOWGEAR_ONLY_MODULES "" CACHE STRING "Modules to build; what they depend on is added. Empty: every module")

# The wanted modules of the list in reverse: each adds what it depends on, which stands above it.
set(lowgear_wanted ${LOWGEAR_ONLY_MODULES})
if(lowgear_wanted)
  list(REVERSE lowgear_layers)
  foreach(layer IN LISTS lowgear_layers)
    string(REGEX MATCH "^([a-z_]+/)?([a-z_]+)" folder ${layer})
    set(module_file ${PROJECT_SOURCE_DIR}/src/${folder}/CMakeLists.txt)
    if(CMAKE_MATCH_2 IN_LIST lowgear_wanted AND EXISTS ${module_file})
      file(STRINGS ${module_file} depends_lines REGEX "^ *DEPENDS ")
      string(REGEX MATCHALL "[a-z_]+" depends "${depends_lines}")
      list(APPEND lowgear_wanted ${depends})
    endif()
  endforeach()
  list(REVERSE lowgear_layers)
endif()

set(LOWGEAR_MODULES)
set(LOWGEAR_PURE_MODULES)
foreach(layer IN LISTS lowgear_layers)
  string(REGEX MATCH "^([a-z_]+/)?([a-z_]+)" folder ${layer})
  set(module ${CMAKE_MATCH_2})
  if(lowgear_wanted AND NOT module IN_LIST lowgear_wanted)
    continue()
  endif()
  if(${PROJECT_SOURCE_DIR}/src/${folder}/CMakeLists.txt IN_LIST lowgear_module_files)
    list(APPEND LOWGEAR_MODULES ${module})
    set(LOWGEAR_MODULE_FOLDER_${module} ${folder})
    if(module STREQUAL core OR layer MATCHES " pure")
      list(APPEND LOWGEAR_PURE_MODULES ${module})
    endif()
  endif()
endforeach()

set(LOWGEAR_LAYER_CHECK ${CMAKE_CURRENT_LIST_DIR}/check_layers.sh ${lowgear_layers_file} ${PROJECT_SOURCE_DIR}/src)
add_custom_target(check_layers ALL COMMAND ${LOWGEAR_LAYER_CHECK}
                  COMMENT "Checking that modules include only modules listed before them" VERBATIM)
set(LOWGEAR_NAME_CHECK ${CMAKE_CURRENT_LIST_DIR}/check_names.sh ${PROJECT_SOURCE_DIR}/src)
add_custom_target(check_names ALL COMMAND ${LOWGEAR_NAME_CHECK} COMMENT "Checking that each name is defined once, in its module's namespace" VERBATIM)

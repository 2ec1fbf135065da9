# Unity builds: the sources of a module are compiled together, a few at a time, so that what their headers instantiate
# is compiled once for all of them. It takes a third of the time of a full build; files that are compiled together must
# not define the same name in their anonymous namespaces. The preset lint compiles every source by itself.

option(LOWGEAR_UNITY_BUILD "Compile the sources of a module together" ON)

# Most sources compiled together: enough to share most instantiations, few enough that after a change the rest of them
# costs seconds. A module with more is divided evenly. Tests, which are not optimised, share most: what they compare is
# of the same types everywhere. With sanitizers the compiler takes more memory.
set(LOWGEAR_UNITY_SOURCES 20)
set(LOWGEAR_UNITY_TESTS 40)
if(LOWGEAR_SANITIZE)
  set(LOWGEAR_UNITY_SOURCES 12)
  set(LOWGEAR_UNITY_TESTS 12)
endif()

# A warning on headers, which takes the sources of a unity build for headers.
if(LOWGEAR_UNITY_BUILD)
  target_compile_options(lowgear_build_flags INTERFACE
                         "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>")
endif()

# lowgear_compile_together(TARGET SOURCES a.cpp... [APART b.cpp...] [TOGETHER room|none] [MOST n]): groups the sources in
# their order, but for generated ones (absolute paths) and those that are to stay apart; with `room` only those of one
# folder. MOST: how many at most, LOWGEAR_UNITY_SOURCES unless given.
function(lowgear_compile_together target)
  cmake_parse_arguments(ARG "" "TOGETHER;MOST" "SOURCES;APART" ${ARGN})
  if(NOT ARG_MOST)
    set(ARG_MOST ${LOWGEAR_UNITY_SOURCES})
  endif()
  if(NOT LOWGEAR_UNITY_BUILD OR ARG_TOGETHER STREQUAL "none")
    return()
  endif()
  list(FILTER ARG_SOURCES EXCLUDE REGEX "^/")
  if(ARG_APART)
    list(REMOVE_ITEM ARG_SOURCES ${ARG_APART})
  endif()
  set(rooms)
  foreach(source IN LISTS ARG_SOURCES)
    set(folder "")
    if(ARG_TOGETHER STREQUAL "room")
      cmake_path(GET source PARENT_PATH folder)
    endif()
    string(MAKE_C_IDENTIFIER "part_${folder}" room)
    list(APPEND rooms ${room})
    list(APPEND sources_${room} ${source})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  foreach(room IN LISTS rooms)
    list(LENGTH sources_${room} count)
    math(EXPR parts "(${count} - 1) / ${ARG_MOST} + 1")
    math(EXPR last "${count} - 1")
    foreach(index RANGE ${last})
      list(GET sources_${room} ${index} source)
      math(EXPR part "${index} * ${parts} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room}_${part})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

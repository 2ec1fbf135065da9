# lowgear_embed(OUTPUT HEADER FUNCTION FILES a.html b.js...)
# Makes the C++ source OUTPUT, which holds the files; see embed_files.cmake.
set(LOWGEAR_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_files.cmake)
function(lowgear_embed output header function)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} -DFUNCTION=${function} "-DFILES=${ARG_FILES}"
            -P ${LOWGEAR_EMBED_SCRIPT}
    DEPENDS ${ARG_FILES} ${LOWGEAR_EMBED_SCRIPT}
    COMMENT "Embedding the files of ${header}"
    VERBATIM)
endfunction()

# cmake -DPROGRAM=lowgear "-DVERBS=plan;verify..." -DOUTPUT=folder -P write_documents.cmake
# Writes what the program prints of itself: a manual page for each verb, compressed as man reads it, and completions.

# write_output(FILE ARGUMENT...): what the program prints with these arguments.
function(write_output file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${OUTPUT}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

write_output(man/lowgear.1 man)
foreach(verb IN LISTS VERBS)
  write_output(man/lowgear-${verb}.1 man ${verb})
endforeach()
file(GLOB pages ${OUTPUT}/man/*.1)
execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
write_output(lowgear.bash completion bash)
write_output(_lowgear completion zsh)

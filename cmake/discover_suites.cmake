# cmake -D PROGRAM=p -D PREFIX=trainer. -D PROCESSORS=2 -D FILE=tests.cmake -P discover_suites.cmake: writes the ctest
# entries of a GoogleTest program, one for each suite. One whose tests are all skipped is skipped.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)[^ \n][^ \n]*[.]" suites "${listed}")
set(entries "")
foreach(suite IN LISTS suites)
  string(STRIP "${suite}" suite)
  string(REGEX REPLACE "[.]$" "" name "${suite}")
  string(APPEND entries "add_test(\"${PREFIX}${name}\" \"${PROGRAM}\" \"--gtest_filter=${suite}*\")\n"
                        "set_tests_properties(\"${PREFIX}${name}\" PROPERTIES PROCESSORS ${PROCESSORS} "
                        "SKIP_REGULAR_EXPRESSION \"\\\\[  PASSED  \\\\] 0 tests\")\n")
endforeach()
if(NOT entries)
  message(FATAL_ERROR "${PROGRAM} lists no tests")
endif()
file(WRITE ${FILE} "${entries}")

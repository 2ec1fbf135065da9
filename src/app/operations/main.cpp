#include "agent/gpu/driver_thread.h"
#include "app/operations/program.h"

int main(int argc, char** argv) { lowgear::agent::end_process(lowgear::operations::run_program(argc, argv)); }

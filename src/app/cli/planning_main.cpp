#include "app/cli/planning_program.h"

int main(int argc, char** argv) { return lowgear::cli::run_planning_program(argc, argv); }

#include "app/cli/program.h"

int main(int argc, char** argv) { return lowgear::cli::run_program(argc, argv); }

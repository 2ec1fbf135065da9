#include "app/cli/program.h"
#include "app/operations/commands/verbs.h"

int main(int argc, char** argv) { return lowgear::cli::run_program(argc, argv, lowgear::operations::all_verbs()); }

#include "app/operations/program.h"

#include "app/cli/program.h"
#include "app/operations/commands/verbs.h"

namespace lowgear::operations {

int run_program(int argc, char** argv) { return cli::run_program(argc, argv, all_verbs()); }

}  // namespace lowgear::operations

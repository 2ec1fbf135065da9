#include "app/cli/planning_program.h"

#include "app/cli/commands/verbs.h"
#include "app/cli/program.h"

namespace lowgear::cli {

int run_planning_program(int argc, char** argv) {
  const std::span<const Verb> verbs = planning_verbs();
  return run_program(argc, argv, {verbs.begin(), verbs.end()});
}

}  // namespace lowgear::cli

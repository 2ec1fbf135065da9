#include "app/cli/commands/verbs.h"
#include "app/cli/program.h"

int main(int argc, char** argv) {
  const auto verbs = lowgear::cli::planning_verbs();
  return lowgear::cli::run_program(argc, argv, {verbs.begin(), verbs.end()});
}

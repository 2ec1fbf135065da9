#include "app/cli/commands/application.h"

/// The program with the commands that plan, and no other.
int main(int argc, char** argv) {
  const std::span<const lowgear::cli::Verb> verbs = lowgear::cli::planning_verbs();
  return lowgear::cli::run_program(argc, argv, {verbs.begin(), verbs.end()});
}

#include "app/cli/commands/application.h"
#include "app/cli/commands/verbs.h"

/// The program with the commands of a first plan, and no other.
int main(int argc, char** argv) {
  namespace cli = lowgear::cli;
  constexpr std::string_view kGroup = cli::group::kPlan;
  return cli::run_program(
      argc, argv,
      {{"plan", kGroup, "Plan clocks", "lowgear plan profile.csv --microbatches 32", cli::declare_plan},
       {"verify", kGroup, "Check a plan", "lowgear verify plan", cli::declare_verify},
       {"example", kGroup, "Write an example profile", "lowgear example", cli::declare_example}});
}

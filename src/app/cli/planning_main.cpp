#include "app/cli/commands/application.h"
#include "app/cli/commands/verbs.h"

/// The program with the commands of a first plan, and no other.
int main(int argc, char** argv) {
  using namespace lowgear::cli;
  return run_program(argc, argv,
                     {{"plan", "Plan clocks", "lowgear plan profile.csv --microbatches 32", declare_plan},
                      {"verify", "Check a plan", "lowgear verify plan", declare_verify},
                      {"example", "Write an example profile", "lowgear example --out example", declare_example}});
}

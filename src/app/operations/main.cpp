#include "agent/gpu/guarded_driver.h"
#include "app/cli/commands/application.h"
#include "app/operations/commands/verbs.h"

int main(int argc, char** argv) {
  lowgear::agent::end_process(lowgear::cli::run_program(argc, argv, lowgear::operations::all_verbs()));
}

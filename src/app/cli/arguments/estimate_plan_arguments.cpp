#include "app/cli/arguments/estimate_plan_arguments.h"

#include "app/cli/arguments/deadlines.h"

namespace lowgear::cli {

void add_estimate_plan_options(CLI::App& app, EstimatePlanArguments& arguments, CLI::Option* plan) {
  add_single_deadline_options(app, arguments.options.deadline);
  app.add_option("--policy", arguments.options.policy,
                 "Policy that chooses the clocks (default lowgear); lowgear compare --help names all")
      ->type_name("NAME");
  add_price_options(app, arguments.prices);
  for (const char* option : {"--deadline", "--slowdown", "--straggler", "--policy", "--gpu-hour", "--kwh", "--co2"}) {
    app.get_option(option)->needs(plan);
  }
}

}  // namespace lowgear::cli

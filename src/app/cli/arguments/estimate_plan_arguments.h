#pragma once

#include <CLI/CLI.hpp>

#include "app/cli/arguments/price_arguments.h"
#include "estimating/estimator/iteration/planned_estimate.h"

namespace lowgear::cli {

/// What `lowgear estimate --plan` is asked for.
struct EstimatePlanArguments {
  estimator::EstimatePlanOptions options;
  PriceArguments prices;
};

/// `--deadline`, `--slowdown`, `--straggler`, `--policy`, `--gpu-hour`, `--kwh`, `--co2`; all go with `--plan`.
void add_estimate_plan_options(CLI::App& app, EstimatePlanArguments& arguments, CLI::Option* plan);

}  // namespace lowgear::cli

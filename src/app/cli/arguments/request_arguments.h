#pragma once

#include <CLI/CLI.hpp>

#include "planning/workflow/job_planner.h"

namespace lowgear::cli {

/// `--slow-rank` and `--power-cap`.
void add_request_options(CLI::App& app, workflow::PlanRequest& request);

}  // namespace lowgear::cli

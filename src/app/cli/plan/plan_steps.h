#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/terminal/console.h"
#include "base/core/formats/json.h"
#include "base/core/progress.h"
#include "planning/steps/step_folder.h"
#include "planning/steps/step_run.h"

namespace lowgear::cli {

/// Options of `lowgear plan --lengths`.
struct StepsArguments {
  std::string lengths;   ///< file; empty: one iteration is planned
  std::string recorded;  ///< file; empty: `lengths` is a trace
  int fit_steps = 0;     ///< 0: half
  steps::Foresight foresight = steps::Foresight::own;
  int expert_ranks = 0;  ///< 0: not given
  double late_pct = 10;
  steps::ClocksPer clocks_per = steps::ClocksPer::unit;
};

/// `--lengths`, `--recorded`, `--fit-steps`, `--predict`, `--expert-ranks`, `--late-steps`, `--clocks-per`.
void add_steps_options(CLI::App& app, StepsArguments& arguments);
/// Whether the call plans steps. Throws InputError where it has options that plans of steps, or of one iteration, do
/// not take.
[[nodiscard]] bool plans_steps(const CLI::App& app);

struct StepsRequest {
  PipelineArguments pipeline;
  SwitchLatencyArgument switch_latency;
  StepsArguments steps;
  std::string out;
  std::string command;
};

/// A plan of steps that was written to its folder.
struct StepsPlan {
  std::string out;
  std::vector<std::string> warnings;
  bool simulated = false;  ///< its profile is of simulated GPUs
  steps::StepsFile file;
  steps::StepRun run;
};

/// Plans every step, and writes the folder. Throws InputError.
[[nodiscard]] StepsPlan plan_of_steps(const StepsRequest& request, Progress& progress, Console& console);

/// The result in words, and as JSON (text/steps_text.cpp).
[[nodiscard]] std::string steps_text(const StepsPlan& plan);
[[nodiscard]] Json steps_json(const StepsPlan& plan);
/// `as dealt`, `balanced`: what people read for a deal.
[[nodiscard]] std::string deal_words(steps::Deal deal);
/// Its page: time, waiting, clocks and saving of every step shown.
[[nodiscard]] std::string steps_page(const StepsPlan& plan);

}  // namespace lowgear::cli

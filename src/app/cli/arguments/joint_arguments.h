#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "app/cli/arguments/pipeline_input.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/workflow/joint_plan.h"

namespace lowgear::cli {

/// `--memory-limit`; empty when not given.
void add_memory_limit_option(CLI::App& app, std::optional<std::string>& memory_limit);

/// A pipeline whose order is free, and what its files say in addition.
struct JointInput {
  std::string profile_name;  ///< as given
  joint::JointProblem problem;
  std::optional<workflow::FreeLayers> free_layers = {};  ///< where layers may move between ranks
  std::optional<double> switch_latency_s = {};           ///< of the profile; empty: not known
  std::vector<std::string> doubts = {};                  ///< why the profile may be wrong
};

/// Reads all files. `layers` is `--layers`, empty where they stay where they are. Throws InputError when arguments
/// contradict a free order, and as `load_pipeline` does.
[[nodiscard]] JointInput load_joint_input(const PipelineArguments& arguments,
                                          const std::optional<std::string>& memory_limit,
                                          const std::optional<std::string>& layers);

}  // namespace lowgear::cli

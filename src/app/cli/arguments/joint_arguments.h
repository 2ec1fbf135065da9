#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/arguments/pipeline_input.h"
#include "planning/api/joint_plan.h"
#include "planning/api/work_replan.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/profile/layers/layer_profile.h"
#include "planning/profile/profile_file.h"

namespace lowgear::cli {

/// How a job's work changes, on the command line.
struct WorkChangeArguments {
  std::string layers;  ///< of the model (`96`), or of every stage (`12,12,12,10`)
  int frozen_layers = 0;
  std::vector<std::string> scales;      ///< `FIRST-LAST=TIME[,ENERGY]`
  double dropped_weight_gradients = 0;  ///< share
  api::Recomputation recomputation = api::Recomputation::as_measured;
  std::optional<int> microbatches;
};

/// `--layers`, into `layers`.
CLI::Option* add_layers_option(CLI::App& app, std::string& layers);

/// `--layers`, `--freeze`, `--scale`, `--drop-weight-gradients`, `--recompute`, `--microbatches`.
void add_work_change_options(CLI::App& app, WorkChangeArguments& arguments);

/// The partition that `--layers` states: as given, or the layers divided evenly. Throws InputError when the layers
/// cannot be read or do not divide into this number of stages.
[[nodiscard]] profile::Partition partition_from_layers(const std::string& text, int stages);

/// The change of a model with this number of layers.
[[nodiscard]] api::WorkChange work_change(const WorkChangeArguments& arguments, int layers);

/// `0-23=0.8` or `0-23=0.8,0.85`: layers, factor of time, factor of energy (that of time where it is not given). Throws
/// InputError on anything else.
[[nodiscard]] api::LayerScale parse_layer_scale(const std::string& text);

/// Most virtual stages per rank that the search of orders tries.
inline constexpr int kMostChunks = 2;

/// `--memory-limit`. The limit stays empty without the option.
void add_memory_limit_option(CLI::App& app, std::optional<std::string>& memory_limit);

/// A pipeline whose order is free, with further contents of its files.
struct JointInput {
  std::string profile_name;  ///< as given
  joint::JointProblem problem;
  std::optional<api::FreeLayers> free_layers = {};    ///< where layers may move between ranks
  profile::StageColumns columns = {};                 ///< of the profile
  std::optional<double> switch_latency_s = {};        ///< of the profile; empty: unknown
  std::vector<profile::PredictedRow> predicted = {};  ///< rows of the problem's profile that no GPU measured
  std::vector<std::string> doubts = {};               ///< why the profile may be wrong
};

/// Reads all files. `layers` is `--layers`, empty where layers stay on their stages. Throws InputError when arguments
/// contradict a free order, and as `load_pipeline` does.
[[nodiscard]] JointInput load_joint_input(const PipelineArguments& arguments,
                                          const std::optional<std::string>& memory_limit,
                                          const std::optional<std::string>& layers);

}  // namespace lowgear::cli

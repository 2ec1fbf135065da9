#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planning/profile/layers/layer_profile.h"
#include "planning/workflow/work_change.h"

namespace lowgear::cli {

/// How a job's work changes, on the command line.
struct WorkChangeArguments {
  std::string layers;  ///< of the model (`96`), or of every stage (`12,12,12,10`)
  int frozen_layers = 0;
  std::vector<std::string> scales;      ///< `FIRST-LAST=TIME[,ENERGY]`
  double dropped_weight_gradients = 0;  ///< share
  workflow::Recomputation recomputation = workflow::Recomputation::as_measured;
  std::optional<int> microbatches;
};

/// `--layers`, into `layers`.
CLI::Option* add_layers_option(CLI::App& app, std::string& layers);

/// `--layers`, `--freeze`, `--scale`, `--drop-weight-gradients`, `--recompute`, `--microbatches`.
void add_work_change_options(CLI::App& app, WorkChangeArguments& arguments);

/// The partition now: as given, or the layers divided evenly. Throws InputError when the layers cannot be read or are
/// not those of so many stages.
[[nodiscard]] profile::Partition partition_from_layers(const std::string& layers, int stages);

/// `layers`: of the model.
[[nodiscard]] workflow::WorkChange work_change(const WorkChangeArguments& arguments, int layers);

/// `0-23=0.8` or `0-23=0.8,0.85`: layers, factor of time, factor of energy (that of time where it is not given). Throws
/// InputError on anything else.
[[nodiscard]] workflow::LayerScale parse_layer_scale(const std::string& text);

}  // namespace lowgear::cli

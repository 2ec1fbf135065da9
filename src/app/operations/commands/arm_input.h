#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "report/experiment/arm_comparison.h"

namespace lowgear::operations {

/// Runs that a report compares.
struct ArmInput {
  std::vector<experiment::Arm> arms;
  experiment::ComparisonOptions options;  ///< of the experiment, if there is one
};

/// Kinds of paths that name runs.
enum class RunPath : unsigned char { none, metrics, run_folder, recording, experiment, replayed };
/// A metrics file of `lowgear train`; a folder with `metrics.jsonl`; a recording; the folder of an experiment that
/// trained, or of one that replayed policies.
[[nodiscard]] RunPath kind_of_run(const std::filesystem::path& path);

/// One run, of any kind but an experiment. A recording counts `tokens_per_iteration`, if given. A folder of a run that
/// also holds its recording has clocks and temperatures. Throws InputError where there is no run, and as the readers.
[[nodiscard]] experiment::RunRecord load_run(const std::filesystem::path& path,
                                             std::optional<double> tokens_per_iteration);

/// The finished runs of an experiment, without those of dropped blocks. Throws InputError as the readers do.
[[nodiscard]] ArmInput load_experiment(const std::filesystem::path& folder);

/// The arms of a command line: `named` are `NAME=RUN,RUN`, and each of `runs` is an arm of its own, named by its file
/// name without ending (by its path where that name is taken), or an experiment with its arms. Throws InputError on a
/// path that is no run, a run whose path is an arm's name, too, an experiment within an arm, two experiments, and as
/// the readers.
[[nodiscard]] ArmInput load_arms(const std::vector<std::string>& runs, const std::vector<std::string>& named,
                                 std::optional<double> tokens_per_iteration);

}  // namespace lowgear::operations

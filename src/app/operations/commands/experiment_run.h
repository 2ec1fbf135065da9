#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "report/experiment/experiment_file.h"

namespace lowgear::operations {

/// An experiment with the files that it names, read and checked.
struct ExperimentInput {
  experiment::ExperimentFile file;
  std::filesystem::path train;  ///< configuration of `lowgear train`
  experiment::ExperimentRecord record;
};

/// Reads the file and checks each arm's training as `lowgear train --dry-run` does, except for the device. Throws
/// InputError with file, line and column.
[[nodiscard]] ExperimentInput read_experiment(const std::filesystem::path& path);

/// Whether a turn has been finished in this folder.
[[nodiscard]] bool is_finished(const std::filesystem::path& out, const experiment::Turn& turn);

/// Runs the turns that are not finished in `out`, one after the other; `note` gets a line for each. A run that ended
/// before its last step is started anew: its times would not be those of one run. Throws InputError when the folder
/// is in use or holds anything but runs of this experiment; Error when a run fails, naming its log; Interrupted
/// after a signal. Finished runs stay in all cases.
void run_experiment(const ExperimentInput& input, const std::filesystem::path& out,
                    const std::function<void(std::string_view)>& note);

}  // namespace lowgear::operations

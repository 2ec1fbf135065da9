#pragma once

#include <string>
#include <vector>

#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// Checks all inputs and outputs of a job, as far as this machine can without GPUs and without writing anything:
/// - the token files and their headers, or the vocabulary for synthetic text, and that there is a sample;
/// - the files with which ranks come to the server;
/// - the files of the weights to begin with: name, type and shape of every tensor;
/// - the newest checkpoint: its manifest, that its files are there, and that it is of this training;
/// - that the checkpoints, the export, the metrics and the recording have a folder that can be made or written to.
///
/// Throws InputError naming the first file or folder that fails.
void check_training(const TrainConfig& config);

/// Throws InputError where a file with which ranks come to the server, token or authorities, cannot be read.
void check_server_files(const TrainServerConfig& server);

/// Why the stage profiles that the job plans with cannot be relied on, one line each. Throws InputError where one
/// cannot be read.
[[nodiscard]] std::vector<std::string> profile_doubts_of(const TrainConfig& config);

}  // namespace lowgear::launcher

#pragma once

#include <string>

#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// What decides how long the units of a job take, besides its partition, its parallel sizes and its GPU: two jobs of
/// the same text may share a profile. `llama 24x2048 heads 16/4 ...`.
[[nodiscard]] std::string model_text(const TrainConfig& config);

/// The job as it is registered at the server (docs/server-api.md), without `run` and `gpu`, which the client library
/// adds. Throws InputError when the schedule's file cannot be read.
[[nodiscard]] std::string server_job_json(const TrainConfig& config);

}  // namespace lowgear::launcher

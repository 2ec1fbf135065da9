#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/rank_cells.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// The order of the schedule `envpipe` by a profile that the server has of such a job: early forwards by rank, and a
/// note for people.
struct ServedOrder {
  std::vector<int> early_forwards;  ///< empty: there is no profile, and the job starts with starting_order
  std::string note;
};

/// Whether the server's profile decides the order: a server is configured, and neither early forwards nor a profile.
[[nodiscard]] bool has_servers_order(const TrainConfig& config);

/// By a profile of the server, within the activations that the job may hold (order_in_memory). Throws InputError where
/// the profile is of another job.
[[nodiscard]] ServedOrder order_by_profile(const TrainConfig& config, const protocol::MeasuredCells& profile);

/// The query of `/v1/profile`, for ranks on GPUs of this model.
[[nodiscard]] std::string profile_query(const TrainConfig& config, std::string_view gpu, bool simulated);

/// Asks the server, its addresses in order. Never throws: if no server responds, the note states why, and the job
/// trains without.
[[nodiscard]] ServedOrder ask_order(const TrainConfig& config, std::string_view gpu, bool simulated,
                                    std::chrono::milliseconds patience);

/// Everything that decides the times of a job's units besides its partition, parallel sizes and GPU: two jobs of the
/// same text may share a profile. `llama 24x2048 heads 16/4 ...`.
[[nodiscard]] std::string model_text(const TrainConfig& config);

/// The job's registration (docs/server-api.md), without `run` and `gpu`, which the client library adds. Throws
/// InputError when the schedule's file cannot be read.
[[nodiscard]] std::string server_job_json(const TrainConfig& config);

}  // namespace lowgear::launcher

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/job_spec.h"

namespace lowgear::protocol {

/// A rank's registration: the body of POST .../ranks (docs/server-api.md).
struct RankSpec {
  int rank = 0;
  int pp_rank = 0;
  int dp_rank = 0;
  int tp_rank = 0;
  std::string instance;  ///< of the process: the same when it registers again
  std::string host;
  std::string gpu_uuid;  ///< empty: no GPU
  std::string gpu;
  bool simulated = false;
  std::vector<int> clocks_mhz;  ///< that the GPU supports, highest first
  std::optional<double> power_limit_w;
  bool follows_plans = false;  ///< whether an agent sets its clocks
  friend bool operator==(const RankSpec&, const RankSpec&) = default;
};

/// Throws InputError, also when the rank has no place in a job of these sizes.
[[nodiscard]] RankSpec read_rank_spec(const JsonView& body, const JobParallel& parallel);
[[nodiscard]] Json to_json(const RankSpec& rank);
/// As one line of text; bytes that are no UTF-8 (a host's name) are replaced.
[[nodiscard]] std::string write_rank_spec(const RankSpec& rank);

}  // namespace lowgear::protocol

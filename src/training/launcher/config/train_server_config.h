#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/core/formats/yaml.h"
#include "protocol/job_spec.h"

namespace lowgear::launcher {

/// The section `server` of the file: the server that plans the job (docs/server-api.md).
struct TrainServerConfig {
  std::string address;                              ///< `http://host:port`, `https://host:port` or `unix:/path`
  std::optional<std::filesystem::path> token_file;  ///< before LOWGEAR_SERVER_TOKEN_FILE
  std::optional<std::filesystem::path> ca_file;  ///< authorities of a server of `https`; before LOWGEAR_SERVER_CA_FILE
  std::string name;                              ///< of the job, for people; empty: the model's
  std::optional<protocol::JobPolicy> policy;     ///< that makes its plans; empty: the server's, or energy.policy
  double slowdown_pct = 0;                       ///< how much longer than the fastest plan an iteration may be planned
  double guard_pct = 2;  ///< how much longer, in addition, the job may take before plans are withdrawn
  double switch_latency_ms = protocol::kDefaultSwitchLatencyMs;  ///< from the request of a clock until its effect
  int profile_clocks = 6;          ///< tried first; 0: none, and another job's profile is waited for
  int profile_iterations = 5;      ///< counted at each clock, at most
  int settle_iterations = 0;       ///< after each change of the clock, not counted
  std::optional<int> min_mhz;      ///< empty: 0.6 times the GPU's highest
  std::optional<int> max_mhz;      ///< empty: the GPU's highest
  double allowance_pct = 2;        ///< time that trials may cost: share of the time of
  int allowance_iterations = 500;  ///< this number of iterations at full clocks
};

/// Reads the section. Paths are relative to `folder`. Throws InputError with file, line and column.
[[nodiscard]] TrainServerConfig read_train_server(const YamlView& map, const std::filesystem::path& folder);

}  // namespace lowgear::launcher

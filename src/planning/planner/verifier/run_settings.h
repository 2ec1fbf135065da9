#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::planner::verifier {

/// What `lowgear plan` was asked for, as its run.json states (`lowgear.run/1`, docs/formats.md).
struct RunSettings {
  std::string policy;
  std::string schedule;
  int ranks = 0;
  int microbatches = 0;
  std::vector<double> blocking_power_w;  ///< by rank
  bool exact = true;                     ///< the frontier is exact; otherwise between bounds at most epsilon apart
  double epsilon = 0;                    ///< relative; 0 when exact
  bool per_stage_kind = false;           ///< one clock for all ops of a (stage, kind)
  double switch_latency_s = 0;
  std::optional<double> asked_deadline_s = {};  ///< where one plan was asked for
};

/// Throws InputError with the JSON path of what is missing, of the wrong kind or out of range.
[[nodiscard]] RunSettings read_run_settings(std::string_view text, const std::string& source);

}  // namespace lowgear::planner::verifier

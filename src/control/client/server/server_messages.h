#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "control/client/measure/gpu_means.h"
#include "control/client/measure/iteration_meter.h"
#include "control/client/server/profile_collector.h"
#include "planning/plan/clock_trial.h"

namespace lowgear {

/// What a rank says of itself to the server (docs/server-api.md).
struct RankDescription {
  int rank = 0;
  int pp_rank = 0;
  int dp_rank = 0;
  int tp_rank = 0;
  std::string instance;  ///< of this process
  std::string host;
  std::string gpu_uuid;  ///< empty: no GPU
  std::string gpu;
  bool simulated = false;
  std::vector<int> clocks_mhz;  ///< highest first
  std::optional<double> power_limit_w;
  bool follows_plans = false;
};
[[nodiscard]] std::string to_text(const RankDescription& rank);

/// An iteration as it is reported.
struct ReportedIteration {
  MeasuredIteration measured;
  int plan_version = 0;  ///< followed throughout; 0: none of the server's
};

[[nodiscard]] std::string reports_text(int rank, std::span<const ReportedIteration> reports, const GpuAverages& gpu);
/// Cells whose energy could not be told are left out.
[[nodiscard]] std::string profile_text(int rank, const ProfileResult& result);

/// A rank's plan as the server hands it out.
struct OfferedPlan {
  int version = 0;
  std::string purpose;  ///< `baseline`, `profile`, `train`
  std::uint64_t from_iteration = 0;
  // Of profile plans, as in ProfileRequest.
  int sweep = 0;
  std::vector<ClockTrial> trials;
  int settle_iterations = 0;
  double settle_s = 0;
  std::string plan_json;  ///< lowgear.plan/1; this rank is its first
};
/// Throws InputError when it is none: what arrived is checked before it goes on to the agent.
[[nodiscard]] OfferedPlan read_offered_plan(std::string_view text, const std::string& source);

/// The job as it is registered: `text` with `run` and `gpu` filled in where it does not name them. Throws InputError
/// when the text is no JSON object, or neither it nor `run` says which start of a job this is.
[[nodiscard]] std::string complete_job(std::string_view text, const std::string& run, const std::string& gpu);

/// A member of the server's answer. Throws InputError when it has none.
[[nodiscard]] std::string answered_text(std::string_view answer, std::string_view member, const std::string& source);
/// What an answer that is no success says, for a person: its message, or its status alone.
[[nodiscard]] std::string refusal_of(int status, std::string_view answer);

}  // namespace lowgear

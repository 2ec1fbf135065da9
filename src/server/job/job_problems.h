#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "server/job/job_record.h"

namespace lowgear::server {

/// Something about a job that its figures do not show by themselves, and that a person should know or act on.
struct JobProblem {
  std::string_view kind;  ///< a word: metrics and documents have it
  bool is_critical = false;
  std::vector<int> ranks;  ///< that it concerns, lowest first
  std::string text;        ///< with the figures, and the GPUs
  std::string todo;
};

// The kinds.
inline constexpr std::string_view kClocksStuck = "clocks_stuck";
inline constexpr std::string_view kPlanNotFollowed = "plan_not_followed";
inline constexpr std::string_view kEnergyLeftOut = "energy_left_out";
inline constexpr std::string_view kGpuShared = "gpu_shared";
inline constexpr std::string_view kGpuCountedOnce = "gpu_counted_once";
inline constexpr std::string_view kReportsMissing = "reports_missing";
inline constexpr std::string_view kIterationsDiffer = "iterations_differ";
inline constexpr std::string_view kTimesDiffer = "times_differ";
inline constexpr std::string_view kPlanUnknown = "plan_unknown";
inline constexpr std::string_view kPlanDoubtful = "plan_doubtful";
inline constexpr std::string_view kFiguresInvalid = "figures_invalid";
inline constexpr std::string_view kNoIteration = "no_iteration";
inline constexpr std::string_view kBaselineTooSlow = "baseline_too_slow";
inline constexpr std::string_view kBaselineUncertain = "baseline_uncertain";
inline constexpr std::string_view kBaselinesClocks = "baselines_clocks";
inline constexpr std::string_view kIterationsStalled = "iterations_stalled";
inline constexpr std::string_view kSilent = "silent";
inline constexpr std::string_view kRankFailed = "rank_failed";
inline constexpr std::string_view kPowerLimitDiffers = "power_limit_differs";

/// At present; critical ones first.
[[nodiscard]] std::vector<JobProblem> problems_of(const JobRecord& job);
/// Text of the problem kFiguresInvalid; empty: the job does not have it.
[[nodiscard]] std::optional<std::string> invalid_text(const JobRecord& job);
/// Of iterations that do not count, or not yet: `iteration 57 and 3 later ones lack the reports of rank 2`
[[nodiscard]] std::string text_of(const HeldUp& held_up);
[[nodiscard]] Json to_json(const std::vector<JobProblem>& problems, const JobRecord& job);

}  // namespace lowgear::server

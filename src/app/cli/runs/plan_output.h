#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/runs/run_file.h"
#include "planning/plan/plan.h"
#include "planning/planner/verifier/verify.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"
#include "report/report/report_data.h"

namespace lowgear {

/// Names within an output folder of `lowgear plan`. One holds `run.json`, and a manifest that lists all of them
/// (core/folder_manifest.h).
namespace output_file {
inline constexpr std::string_view kRun = "run.json";
inline constexpr std::string_view kProfile = "profile.csv";
inline constexpr std::string_view kSchedule = "schedule.csv";
inline constexpr std::string_view kFrontier = "frontier.csv";
/// The frontier that the certificate proves, where `frontier.csv` is another policy's own.
inline constexpr std::string_view kExactFrontier = "exact_frontier.csv";
/// Lower bound at the frontier's times, where it is not the frontier itself.
inline constexpr std::string_view kLowerBound = "lower_bound.csv";
inline constexpr std::string_view kPlans = "plans.csv";
inline constexpr std::string_view kCertificate = "certificate.txt";
inline constexpr std::string_view kReport = "report.html";
[[nodiscard]] std::string plan(int number);          ///< plans/00007.json
[[nodiscard]] std::string perseus_plan(int number);  ///< freqs_pipeline_00007.py, 0 the slowest
}  // namespace output_file

/// What the report of a run is made from.
struct RunContents {
  RunFile run;
  StageProfile profile;
  Schedule schedule;
  std::vector<ReportPoint> frontier;     ///< the one that is proven
  std::vector<ReportPoint> lower_bound;  ///< empty: the frontier itself
  std::vector<ReportPlan> plans;
  int chosen_plan = 0;  ///< number of `chosen`
  Plan chosen;
  std::optional<VerifyReport> verified;  ///< absent when nobody looked
};

/// All files that `verify` looks at. Throws InputError when one is missing.
[[nodiscard]] PlanFolder read_plan_folder(const std::filesystem::path& folder);

/// What the report is made from. Throws InputError when something is missing or cannot be read.
[[nodiscard]] RunContents read_run_contents(const PlanFolder& files, const std::filesystem::path& folder);

/// Whether a plan saves energy without finishing later: it takes no longer than the iteration with everything at its
/// highest clock. Equal times may differ in the last digits, as they are sums of doubles.
[[nodiscard]] bool keeps_time(double time_s, double baseline_time_s);

/// Number of the plan to show: the slowest that keeps the baseline's time, or else the fastest. `plans` fastest first
/// and not empty.
[[nodiscard]] int plan_to_show(std::span<const ReportPlan> plans, double baseline_time_s);

/// The report's figures. Throws what a replay throws.
[[nodiscard]] ReportData build_report(const RunContents& contents);

}  // namespace lowgear

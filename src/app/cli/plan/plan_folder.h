#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "app/cli/terminal/console.h"
#include "base/core/files/file.h"
#include "planning/api/run_folder.h"
#include "planning/planner/verifier/joint_folder.h"
#include "planning/planner/verifier/verify.h"
#include "planning/steps/verify_steps.h"

namespace lowgear::cli {

/// Names within an output folder of `lowgear plan`. One holds `run.json`, and a manifest that lists all of them
/// (base/core/files/folder_manifest.h).
namespace output_file {
inline constexpr std::string_view kRun = "run.json";
inline constexpr std::string_view kProfile = "profile.csv";
inline constexpr std::string_view kSchedule = "schedule.csv";
inline constexpr std::string_view kFrontier = "frontier.csv";
/// The frontier that the certificate proves, where `frontier.csv` is another policy's own.
inline constexpr std::string_view kExactFrontier = "exact_frontier.csv";
/// Lower bound at the frontier's times, where the frontier itself is not the bound.
inline constexpr std::string_view kLowerBound = "lower_bound.csv";
inline constexpr std::string_view kJointBound = "joint_bound.json";
/// Of a run whose layers may move: the profile of the given partition, and the costs of each layer.
inline constexpr std::string_view kGivenProfile = "given_profile.csv";
inline constexpr std::string_view kLayers = "layers.csv";
inline constexpr std::string_view kPlans = "plans.csv";
inline constexpr std::string_view kCertificate = "certificate.txt";
inline constexpr std::string_view kReport = "report.html";
/// Of a plan of steps.
inline constexpr std::string_view kSteps = "steps.csv";
inline constexpr std::string_view kReplicas = "replicas.csv";
inline constexpr std::string_view kAmounts = "amounts.csv";
/// Fits and plans of the policy perseus, as pictures.
inline constexpr std::string_view kPerseusPlots = "perseus.html";
[[nodiscard]] std::string plan(int number);                             ///< plans/00007.json
[[nodiscard]] std::string of_order(int number, std::string_view file);  ///< orders/02/run.json
[[nodiscard]] std::string perseus_plan(int number);                     ///< freqs_pipeline_00007.py, 0 the slowest
}  // namespace output_file

/// Moves a filled folder to `out`, as `commit_folder` does, and says which run it has replaced there, if any: `replaced
/// plan (96 microbatches, 8 stages, 1f1b, of profile.csv)`.
void commit_over(const std::filesystem::path& out, StagedDirectory& folder, Console& console);

/// All files that `verify` looks at. Throws InputError when one is missing.
[[nodiscard]] planner::PlanFolder read_plan_folder(const std::filesystem::path& folder);

/// Whether the folder is that of a run with a free order (`lowgear plan --schedule auto`).
[[nodiscard]] bool is_joint_folder(const std::filesystem::path& folder);

/// All files that `verify` looks at in the folder of a run with a free order. Throws InputError when one is missing.
[[nodiscard]] planner::JointFolder read_joint_folder(const std::filesystem::path& folder);

/// Whether the folder is that of a plan of steps (`lowgear plan --lengths`).
[[nodiscard]] bool is_steps_folder(const std::filesystem::path& folder);

/// All files that `verify` looks at in the folder of a plan of steps. Throws InputError when one is missing.
[[nodiscard]] steps::StepFolder read_steps_folder(const std::filesystem::path& folder);

/// Contents of the report, with the table of lower bounds in `folder`. Throws InputError when something is
/// missing or cannot be read.
[[nodiscard]] api::RunContents read_run_contents(const planner::PlanFolder& files, const std::filesystem::path& folder);

}  // namespace lowgear::cli

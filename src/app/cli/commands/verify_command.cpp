#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/text/plan_text.h"
#include "base/core/files/folder_manifest.h"
#include "base/core/files/memory_files.h"
#include "base/core/numbers/figure_text.h"
#include "planning/api/run_folder.h"

namespace lowgear::cli {
namespace {

struct VerifyArguments {
  std::string folder;
  bool json = false;
};

Json report_json(const VerifyArguments& arguments, const planner::VerifyReport& report) {
  return {{"folder", arguments.folder},
          {"ok", report.ok()},
          {"vertices", report.vertices},
          {"plans", report.plans},
          {"epsilon", report.epsilon},
          {"max_gap_pct", report.max_gap_pct},
          {"missed_deadline_s", or_null(report.missed_deadline_s)},
          {"max_joint_gap_pct", or_null(report.max_joint_gap_pct)},
          {"layers", or_null(report.layers)},
          {"failures", report.failures}};
}

/// Why the folder cannot be verified: files that it lists are gone.
std::vector<std::string> missing_files(const std::string& folder) {
  std::vector<std::string> failures;
  if (MemoryFiles::holds(folder) || !file_exists(std::filesystem::path(folder) / kFolderManifestName)) return failures;
  for (const std::string& name : listed_files(folder)) {
    if (file_exists(std::filesystem::path(folder) / name)) continue;
    failures.push_back(fmt::format("{}: is listed in {} and is gone; plan again", name, kFolderManifestName));
  }
  return failures;
}

std::string files_text(const std::string& folder) {
  const bool has_list = MemoryFiles::holds(folder) || file_exists(std::filesystem::path(folder) / kFolderManifestName);
  return fmt::format(
      "  files     {}; contents of report.html, other policies' figures in run.json, and other files "
      "without figures of the proof are not checked\n",
      has_list ? "all listed files exist"
               : fmt::format("{} is gone, so files may be missing unnoticed", kFolderManifestName));
}

/// The folder's report, and the plan that `lowgear plan` showed.
struct Verified {
  planner::VerifyReport report;
  int shown_plan = 0;                      ///< of a folder that passes
  std::optional<int> order = {};           ///< in which it runs, where orders were searched
  std::vector<std::string> warnings = {};  ///< with which it was planned, likewise
};

template <class Folder, class Contents>
Verified verified(const Folder& folder, const Contents& contents_of) {
  ProgressBar progress;
  Verified result{.report = verify(folder, &progress)};
  if (!result.report.ok()) return result;
  api::RunContents contents = contents_of(folder);
  result.shown_plan = contents.chosen_plan;
  result.order = std::ranges::find(contents.plans, contents.chosen_plan, &api::PlanFigures::number)->order;
  result.warnings = std::move(contents.run.warnings);
  return result;
}

Verified verified(const std::string& folder) {
  Verified result{.report = {.failures = missing_files(folder)}};
  if (!result.report.ok()) return result;
  if (is_joint_folder(folder)) return verified(read_joint_folder(folder), api::read_joint_contents);
  return verified(read_plan_folder(folder),
                  [](const planner::PlanFolder& files) { return api::read_run_contents(files, {}); });
}

std::string report_text(const VerifyArguments& arguments, const Verified& verified) {
  const planner::VerifyReport& report = verified.report;
  if (!report.ok()) return fmt::format("{}: NOT verified\n", arguments.folder);
  constexpr double kPercent = 100;
  const std::string all_orders = report.max_joint_gap_pct
                                     ? fmt::format(
                                           "  orders    no order of 1 or 2 stages per rank within memory uses less "
                                           "than the plans' bounds: largest gap {:.3g} %\n",
                                           *report.max_joint_gap_pct)
                                     : "";
  const std::string layers =
      report.layers ? fmt::format("  layers    {}: the profiles of the given and the chosen partition are their sums\n",
                                  *report.layers)
                    : "";
  const std::string deadlines =
      report.missed_deadline_s
          ? fmt::format("the deadline of {:.6g} s that was asked for is MISSED", *report.missed_deadline_s)
          : "deadlines kept";
  return fmt::format(
      "{}: verified\n"
      "  frontier  {}: times possible, flow conserved, energy within {:.3g} % of its proven bound\n"
      "  plans     {}: replayed to their figures, {}, largest proven gap {:.3g} %\n"
      "{}{}{}{}next: {}\n",
      arguments.folder, counted(report.vertices, "vertex", "vertices"), report.epsilon * kPercent, report.plans,
      deadlines, report.max_gap_pct, all_orders, layers, files_text(arguments.folder), simulated_text(report.simulated),
      training_text(arguments.folder, verified.shown_plan, verified.order));
}

Json step_report_json(const VerifyArguments& arguments, const steps::StepVerifyReport& report) {
  return {{"folder", arguments.folder},      {"ok", report.ok()},           {"steps", report.steps},
          {"safe_steps", report.safe_steps}, {"replicas", report.replicas}, {"max_gap_pct", report.max_gap_pct},
          {"latest", report.latest},         {"failures", report.failures}};
}

std::string step_report_text(const VerifyArguments& arguments, const steps::StepVerifyReport& report) {
  if (!report.ok()) return fmt::format("{}: NOT verified\n", arguments.folder);
  constexpr double kPercent = 100;
  return fmt::format(
      "{}: verified\n"
      "  steps     {} replayed to their figures in each deal, {} at full clocks, the latest {:.3g} % after full "
      "clocks by predicted times\n"
      "  replicas  {}: clocks measured, flow conserved; largest proven gap of a step {:.3g} %\n{}{}",
      arguments.folder, report.steps, report.safe_steps, kPercent * report.latest,
      counted(report.replicas, "plan", "plans"), report.max_gap_pct, files_text(arguments.folder),
      simulated_text(report.simulated));
}

ExitCode verify_plan_of_steps(const VerifyArguments& arguments, Console& console) {
  steps::StepVerifyReport report{.failures = missing_files(arguments.folder)};
  if (report.ok()) {
    ProgressBar progress;
    report = verify_steps(read_steps_folder(arguments.folder), progress);
  }
  if (arguments.json) {
    console.print_json(step_report_json(arguments, report));
  } else {
    console.print(step_report_text(arguments, report));
    for (const std::string& failure : report.failures) console.error(failure);
  }
  return report.ok() ? ExitCode::ok : ExitCode::failed;
}

ExitCode run_verify(const VerifyArguments& arguments, Console& console) {
  if (is_steps_folder(arguments.folder)) return verify_plan_of_steps(arguments, console);
  const Verified result = verified(arguments.folder);
  if (arguments.json) {
    Json json = report_json(arguments, result.report);
    json["warnings"] = result.warnings;
    console.print_json(json);
  } else {
    for (const std::string& warning : result.warnings) console.note(warning);
    console.print(report_text(arguments, result));
    for (const std::string& failure : result.report.failures) console.error(failure);
  }
  return result.report.ok() ? ExitCode::ok : ExitCode::failed;
}

}  // namespace

VerbAction declare_verify(CLI::App& app) {
  auto arguments = std::make_shared<VerifyArguments>();
  app.add_option("folder", arguments->folder, "Folder that lowgear plan has written")->type_name("DIR")->required();
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_verify(*arguments, console); };
}

}  // namespace lowgear::cli

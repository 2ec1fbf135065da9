#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/terminal/progress.h"

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

std::string report_text(const VerifyArguments& arguments, const planner::VerifyReport& report) {
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
      "  frontier  {} vertices: times possible, flow conserved, energy within {:.3g} % of its proven bound\n"
      "  plans     {}: replayed to their figures, {}, largest proven gap {:.3g} %\n"
      "{}{}next: train with a plan: lowgear train CONFIG --plan {}/plans/00000.json\n",
      arguments.folder, report.vertices, report.epsilon * kPercent, report.plans, deadlines, report.max_gap_pct,
      all_orders, layers, shell_word(arguments.folder));
}

ExitCode run_verify(const VerifyArguments& arguments, Console& console) {
  planner::VerifyReport report;
  {
    ProgressBar progress;
    report = is_joint_folder(arguments.folder) ? verify(read_joint_folder(arguments.folder), &progress)
                                               : verify(read_plan_folder(arguments.folder), &progress);
  }
  if (arguments.json) {
    console.print_json(report_json(arguments, report));
  } else {
    console.print(report_text(arguments, report));
    for (const std::string& failure : report.failures) console.error(failure);
  }
  return report.ok() ? ExitCode::ok : ExitCode::failed;
}

}  // namespace

VerbAction declare_verify(CLI::App& app) {
  auto arguments = std::make_shared<VerifyArguments>();
  app.add_option("folder", arguments->folder, "Folder that lowgear plan has written")->type_name("DIR")->required();
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_verify(*arguments, console); };
}

}  // namespace lowgear::cli

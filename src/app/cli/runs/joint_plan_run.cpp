#include "app/cli/runs/joint_plan_run.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/version.h"
#include "planning/plan/plan_json.h"
#include "planning/planner/verifier/joint_folder.h"
#include "planning/profile/latency/profile_latency.h"
#include "planning/schedule/torch_csv.h"
#include "report/report/html_report.h"
#include "report/report/run_report.h"

namespace lowgear::cli {
namespace {

/// The files of one run with a free order.
class JointFiles {
 public:
  JointFiles(const PlanArguments& arguments, const JointInput& input, StagedDirectory& folder)
      : arguments_(&arguments), input_(&input), folder_(&folder) {}

  void add_plan(int number, const plan::Plan& plan) {
    write(files_.plans.emplace_back(), output_file::plan(number), write_plan(plan));
  }

  /// Completes `run` with what only the caller knows.
  void add_run(workflow::RunFile& run, const workflow::JointPlanResult& result) {
    complete(run);
    write(files_.run, output_file::kRun, write_run(run));
    write(files_.frontier, output_file::kFrontier, workflow::write_joint_frontier(result.frontier));
    write(files_.plans_table, output_file::kPlans, write_plans_table(result.plans));
    write(files_.profile, output_file::kProfile, write_stage_profile(result.profile));
    if (input_->free_layers) {
      planner::MovedLayers& moved = files_.moved.emplace();
      write(moved.layers, output_file::kLayers, write_layer_profile(input_->free_layers->layers));
      write(moved.given_profile, output_file::kGivenProfile, write_stage_profile(input_->problem.profile));
    }
    write(files_.lower_bound, output_file::kLowerBound, workflow::write_frontier_table(result.lower_bound));
    write(files_.bound_prices, output_file::kJointBound, result.bound_prices);
  }

  void add_order(const workflow::PlannedOrder& order, workflow::RunFile run) {
    complete(run);
    const auto number = static_cast<int>(files_.orders.size());
    const auto name = [&](std::string_view file) { return output_file::of_order(number, file); };
    planner::PlanFolder& files = files_.orders.emplace_back();
    write(files.run, name(output_file::kRun), write_run(run));
    write(files.profile, name(output_file::kProfile),
          profile::with_switch_latency(write_stage_profile(order.pipeline.profile), input_->switch_latency_s));
    write(files.schedule, name(output_file::kSchedule), write_torch_csv(order.pipeline.schedule));
    write(files.frontier, name(output_file::kFrontier), workflow::write_frontier_table(order.frontier.vertices));
    write(files.certificate, name(output_file::kCertificate), order.frontier.certificate);
    if (order.frontier.lower_bound.empty()) return;
    folder_->write(name(output_file::kLowerBound), workflow::write_frontier_table(order.frontier.lower_bound));
  }

  [[nodiscard]] const planner::JointFolder& texts() const { return files_; }

 private:
  void write(planner::PlanFolder::File& kept, std::string name, std::string text) {
    folder_->write(name, text);
    kept = {std::move(name), std::move(text)};
  }
  void write(planner::PlanFolder::File& kept, std::string_view name, std::string text) {
    write(kept, std::string(name), std::move(text));
  }

  void complete(workflow::RunFile& run) const {
    run.version = version();
    run.command = arguments_->command;
    run.profile = input_->profile_name;
  }

  const PlanArguments* arguments_;
  const JointInput* input_;
  StagedDirectory* folder_;
  planner::JointFolder files_;
};

bool is_quick_to_verify(const workflow::JointPlanResult& result) {
  return workflow::is_quick_to_verify(result.orders.front().pipeline, result.plans.size() + result.orders.size());
}

planner::VerifyReport verified(const planner::JointFolder& files, Progress& progress) {
  progress.update("verifying", -1);
  planner::VerifyReport report = verify(files);
  if (report.ok()) return report;
  throw Error(fmt::format("nothing was written: the plans do not pass verification: {}", report.failures.front()));
}

}  // namespace

JointPlanSummary make_joint_plans(const PlanArguments& arguments, JointInput input, StagedDirectory& folder,
                                  Progress& progress) {
  if (arguments.perseus_format) {
    throw InputError("--perseus-format: Perseus' and Zeus' files say nothing of an order; name a schedule");
  }
  const workflow::PlanOptions options = plan_options(arguments);
  JointFiles files(arguments, input, folder);
  const workflow::PlanReceiver receive = [&files](const workflow::ProfiledPipeline&, int number,
                                                  const plan::Plan& made) { files.add_plan(number, made); };
  JointPlanSummary summary;
  summary.result = input.free_layers ? plan_jointly(input.problem, *input.free_layers, options, receive, &progress)
                                     : plan_jointly(input.problem, options, receive, &progress);
  workflow::JointPlanResult& result = summary.result;
  result.warnings.insert(result.warnings.end(), input.doubts.begin(), input.doubts.end());
  if (!input.problem.may_split()) {
    result.warnings.emplace_back(
        "orders with split backwards are left out, as the profile has none: measure them, or give --backward-split");
  }
  for (const workflow::PlannedOrder& order : result.orders) files.add_order(order, run_file_of(order, options));
  workflow::RunFile run = run_file_of(result, options);
  files.add_run(run, result);
  if (is_quick_to_verify(result)) summary.verified = verified(files.texts(), progress);
  workflow::RunContents contents = workflow::read_joint_contents(files.texts());
  contents.verified = summary.verified;
  folder.write(output_file::kReport, report::render_html_report(report::build_report(contents)));
  return summary;
}

}  // namespace lowgear::cli

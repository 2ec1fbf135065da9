#include "app/cli/plan/plan_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/terminal/progress.h"
#include "base/core/error.h"
#include "base/core/version.h"
#include "planning/plan/plan_json.h"
#include "planning/planner/verifier/joint_folder.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/torch_csv.h"
#include "report/report/html_report.h"
#include "report/report/perseus_report.h"
#include "report/report/run_report.h"
#include "rivals/policies/perseus/perseus_series.h"
#include "rivals/policies/published_policies.h"

namespace lowgear::cli {
namespace {

/// What `plan` refuses, too, here in the words of the command line.
void require_plannable(const PlanArguments& arguments, const api::PlanOptions& options) {
  if (options.gpu_name.size() > plan::kMaxGpuNameBytes) {
    throw InputError(
        fmt::format("--gpu: a name has at most {} bytes, as nvidia-smi -L prints it", plan::kMaxGpuNameBytes));
  }
  if (arguments.perseus_plans && options.request.policy != "perseus") {
    throw InputError("--perseus-plans: give --policy perseus, whose frontier they are of, or --plans for Lowgear's");
  }
  if (arguments.perseus_plots && options.request.policy != "perseus") {
    throw InputError("--perseus-plots: give --policy perseus, whose fits and frontier they draw");
  }
  if (options.request.power_cap && options.planner.switch_latency_s > 0) {
    throw InputError(
        "--power-cap: where clocks change late, an op may draw the power of the clock before: leave out "
        "--no-ask-ahead, or give --switch-latency instant");
  }
  if (options.request.policy == planner::kLowgearPolicy) return;
  (void)options.request.policies.make(options.request.policy);  // names those that exist
  if (options.request.power_cap) {
    throw InputError("--power-cap: Lowgear's planner makes the plans within a cap: leave out --policy or --power-cap");
  }
  if (options.planner.granularity != planner::PlanGranularity::per_op) {
    throw InputError(
        "--granularity stage: only the policy lowgear plans one clock per stage and direction: leave out --policy or "
        "--granularity");
  }
  if (arguments.deadlines.plans) {
    throw InputError(
        "--plans: only the policy lowgear makes several plans; give --deadline for one at a time, or "
        "--perseus-plans for files of the frontier of perseus");
  }
}

/// The files of one run of `lowgear plan`.
class PlanFiles {
 public:
  PlanFiles(const PlanArguments& arguments, StagedDirectory& folder, Progress& progress)
      : arguments_(&arguments), folder_(&folder), progress_(&progress) {}

  /// Plans are written as they come, and kept as long as it is quick to verify them all.
  void add_plan(const api::ProfiledPipeline& pipeline, int number, const plan::Plan& plan) {
    write(files_.plans.emplace_back(), output_file::plan(number), write_plan(plan));
    if (arguments_->perseus_format && !arguments_->perseus_plans)
      perseus_plans_.push_back(policies::perseus_candidate(pipeline, plan));
    if (!is_quick_to_verify(pipeline, files_.plans.size())) files_.plans.back().text.clear();
  }

  void add_result(const api::PlanResult& result, const api::RunFile& run, const profile::ProfileFile& given) {
    write(files_.profile, output_file::kProfile,
          profile::write_profile_file(
              {.profile = result.pipeline.profile,
               .columns = stage_columns(result.pipeline.dag, result.pipeline.blocking_power_w, given.columns),
               .switch_latency_s = given.switch_latency_s,
               .predicted = result.pipeline.predicted,
               .simulated = result.pipeline.simulated}));
    write(files_.schedule, output_file::kSchedule, write_torch_csv(result.pipeline.schedule));
    const bool own_frontier = !result.policy_frontier.empty();
    write(files_.frontier, own_frontier ? output_file::kExactFrontier : output_file::kFrontier,
          api::write_frontier_table(result.frontier.vertices));
    if (own_frontier) folder_->write(output_file::kFrontier, api::write_frontier_table(result.policy_frontier));
    if (!result.frontier.lower_bound.empty())
      folder_->write(output_file::kLowerBound, api::write_frontier_table(result.frontier.lower_bound));
    write(files_.certificate, output_file::kCertificate, result.frontier.certificate);
    write(files_.plans_table, output_file::kPlans, write_plans_table(result.plans));
    write(files_.run, output_file::kRun, write_run(run));
    const auto write_plan_file = [this](int number, const std::string& text) {
      folder_->write(output_file::perseus_plan(number), text);
    };
    const formats::PerseusDialect dialect = arguments_->perseus_format.value_or(formats::PerseusDialect::artifact);
    if (arguments_->perseus_plans) {
      const policies::PerseusFrontierOptions frontier{perseus_options(arguments_->perseus), *arguments_->perseus_plans,
                                                      dialect};
      (void)policies::write_perseus_frontier(result.pipeline, frontier, write_plan_file, progress_);
    } else if (arguments_->perseus_format) {
      policies::write_perseus_series(perseus_plans_, dialect, write_plan_file);
    }
    if (arguments_->perseus_plots) write_perseus_plots(result.pipeline);
  }

  [[nodiscard]] const planner::PlanFolder& texts() const { return files_; }

 private:
  void write(planner::PlanFolder::File& kept, std::string_view name, std::string text) {
    folder_->write(name, text);
    kept = {std::string(name), std::move(text)};
  }

  void write_perseus_plots(const api::ProfiledPipeline& pipeline) {
    report::Page page =
        report::perseus_report(pipeline, perseus_options(arguments_->perseus), *arguments_->perseus_plots, progress_);
    page.lowgear_version = version();
    page.command = arguments_->command;
    folder_->write(output_file::kPerseusPlots, render_html_page(page));
  }

  const PlanArguments* arguments_;
  StagedDirectory* folder_;
  Progress* progress_;
  planner::PlanFolder files_;
  std::vector<policies::PerseusCandidate> perseus_plans_;  ///< fastest first; empty when they are not asked for
};

planner::VerifyReport verified(const planner::PlanFolder& files, Progress& progress) {
  planner::VerifyReport report = verify(files, &progress);
  if (report.ok()) return report;
  throw Error(fmt::format("nothing was written: the plans do not pass verification: {}", report.failures.front()));
}

api::RunContents contents_of(const PlanSummary& summary, api::RunFile run) {
  const api::PlanResult& result = summary.result;
  return {.run = std::move(run),
          .profile = result.pipeline.profile,
          .schedule = result.pipeline.schedule,
          .frontier = result.frontier.vertices,
          .lower_bound = result.frontier.lower_bound,
          .plans = result.plans,
          .chosen_plan = result.shown_plan,
          .chosen = result.shown,
          .verified = summary.verified};
}

}  // namespace

profile::StageColumns stage_columns(const schedule::PipelineDag& dag, std::span<const double> by_rank_w,
                                    const profile::StageColumns& stated) {
  const auto stages = static_cast<std::size_t>(dag.stages);
  std::vector<double> by_stage_w(stages);
  for (const schedule::ComputeOp& op : dag.ops) {
    by_stage_w.at(static_cast<std::size_t>(op.stage)) = by_rank_w[static_cast<std::size_t>(op.rank)];
  }
  profile::StageColumns columns{.blocking_power_w = std::move(by_stage_w)};
  if (stated.activation_bytes.size() == stages) columns.activation_bytes = stated.activation_bytes;
  if (stated.transfer_s.size() + 1 == stages) columns.transfer_s = stated.transfer_s;
  return columns;
}

api::PlanOptions plan_options(const PlanArguments& arguments) {
  api::PlanOptions options{.request = arguments.request,
                           .planner = planner_options(arguments.planner),
                           .deadlines = arguments.deadlines,
                           .gpu_name = arguments.pipeline.gpu_name,
                           .clock_lead_s = arguments.planner.switch_latency.lead_s,
                           .late_s = arguments.planner.switch_latency.requests_at_begin_s(),
                           .now_s = wall_clock(),
                           .start = start_task};
  options.request.policies = policies::published_policies({.perseus = perseus_options(arguments.perseus)});
  require_plannable(arguments, options);
  return options;
}

PlanSummary make_plans(const PlanArguments& arguments, PipelineInput input, StagedDirectory& folder, Progress& progress,
                       std::optional<report::ChangedWork> change) {
  api::PlanOptions options = plan_options(arguments);
  const policies::EnvPipeOptions envpipe =
      envpipe_options(arguments.envpipe, arguments.memory_limit, arguments.pipeline.schedule.extra_activations, input);
  require_valid(envpipe);
  options.request.policies =
      policies::published_policies({.perseus = perseus_options(arguments.perseus), .envpipe = envpipe});
  std::string steps;
  if (!arguments.envpipe_steps.empty()) {
    if (options.request.policy != "envpipe")
      throw InputError("--envpipe-steps: give --policy envpipe, whose steps they are");
    options.request.policy_steps = [&steps, number = 0](std::string_view text) mutable {
      steps += fmt::format("step {}\n{}", number++, text);
    };
  }
  PlanFiles files(arguments, folder, progress);
  const api::PlanReceiver receive = [&files](const api::ProfiledPipeline& pipeline, int number,
                                             const plan::Plan& made) { files.add_plan(pipeline, number, made); };
  PlanSummary summary;
  summary.result = api::plan(std::move(input.pipeline), options, receive, &progress);
  if (!arguments.envpipe_steps.empty()) write_file_atomically(arguments.envpipe_steps, steps);
  api::RunFile run = run_file_of(summary.result, options);
  run.version = version();
  run.command = arguments.command;
  run.profile = input.file.source;
  run.layers = arguments.changed_layers;
  files.add_result(summary.result, run, input.file);
  if (is_quick_to_verify(summary.result.pipeline, summary.result.plans.size())) {
    summary.verified = verified(files.texts(), progress);
  }
  report::Data data = report::build_report(contents_of(summary, std::move(run)));
  data.change = std::move(change);
  folder.write(output_file::kReport, report::render_html_report(data));
  return summary;
}

namespace {

/// The files of one run with a free order.
class JointFiles {
 public:
  JointFiles(const PlanArguments& arguments, const JointInput& input, StagedDirectory& folder)
      : arguments_(&arguments), input_(&input), folder_(&folder) {}

  void add_plan(int number, const plan::Plan& plan) {
    write(files_.plans.emplace_back(), output_file::plan(number), write_plan(plan));
  }

  /// Adds to `run` the members that only the caller knows.
  void add_run(api::RunFile& run, const api::JointPlanResult& result) {
    complete(run);
    write(files_.run, output_file::kRun, write_run(run));
    write(files_.frontier, output_file::kFrontier, api::write_joint_frontier(result.frontier));
    write(files_.plans_table, output_file::kPlans, write_plans_table(result.plans));
    // Of ranks whose layers have moved, nothing is stated.
    profile::StageColumns columns = input_->free_layers ? profile::StageColumns{} : input_->columns;
    columns.blocking_power_w = input_->problem.blocking_power_w;
    write(files_.profile, output_file::kProfile,
          profile::write_profile_file({.profile = result.profile,
                                       .columns = std::move(columns),
                                       .predicted = predicted_rows_of(result.profile),
                                       .simulated = input_->problem.simulated}));
    if (input_->free_layers) {
      planner::MovedLayers& moved = files_.moved.emplace();
      write(moved.layers, output_file::kLayers, write_layer_profile(input_->free_layers->layers));
      write(moved.given_profile, output_file::kGivenProfile,
            profile::write_profile_file({.profile = input_->problem.profile,
                                         .predicted = input_->predicted,
                                         .simulated = input_->problem.simulated}));
    }
    write(files_.lower_bound, output_file::kLowerBound, api::write_frontier_table(result.lower_bound));
    write(files_.bound_prices, output_file::kJointBound, result.bound_prices);
  }

  void add_order(const api::PlannedOrder& order, api::RunFile run) {
    complete(run);
    const auto number = static_cast<int>(files_.orders.size());
    const auto name = [&](std::string_view file) { return output_file::of_order(number, file); };
    planner::PlanFolder& files = files_.orders.emplace_back();
    write(files.run, name(output_file::kRun), write_run(run));
    write(files.profile, name(output_file::kProfile),
          profile::write_profile_file(
              {.profile = order.pipeline.profile,
               .columns = stage_columns(order.pipeline.dag, order.pipeline.blocking_power_w,
                                        input_->free_layers ? profile::StageColumns{} : input_->columns),
               .switch_latency_s = input_->switch_latency_s,
               .predicted = predicted_rows_of(order.pipeline.profile),
               .simulated = order.pipeline.simulated}));
    write(files.schedule, name(output_file::kSchedule), write_torch_csv(order.pipeline.schedule));
    write(files.frontier, name(output_file::kFrontier), api::write_frontier_table(order.frontier.vertices));
    write(files.certificate, name(output_file::kCertificate), order.frontier.certificate);
    if (order.frontier.lower_bound.empty()) return;
    folder_->write(name(output_file::kLowerBound), api::write_frontier_table(order.frontier.lower_bound));
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

  [[nodiscard]] std::vector<profile::PredictedRow> predicted_rows_of(const profile::StageProfile& derived) const {
    return profile::predicted_rows_of(input_->problem.profile, input_->predicted, derived);
  }

  void complete(api::RunFile& run) const {
    run.version = version();
    run.command = arguments_->command;
    run.profile = input_->profile_name;
  }

  const PlanArguments* arguments_;
  const JointInput* input_;
  StagedDirectory* folder_;
  planner::JointFolder files_;
};

bool is_quick_to_verify(const api::JointPlanResult& result) {
  return api::is_quick_to_verify(result.orders.front().pipeline, result.plans.size() + result.orders.size());
}

planner::VerifyReport verified(const planner::JointFolder& files, Progress& progress) {
  planner::VerifyReport report = verify(files, &progress);
  if (report.ok()) return report;
  throw Error(fmt::format("nothing was written: the plans do not pass verification: {}", report.failures.front()));
}

}  // namespace

JointPlanSummary make_joint_plans(const PlanArguments& arguments, JointInput input, StagedDirectory& folder,
                                  Progress& progress) {
  if (arguments.perseus_format) {
    throw InputError("--perseus-format: Perseus' and Zeus' files say nothing of an order; name a schedule");
  }
  const api::PlanOptions options = plan_options(arguments);
  JointFiles files(arguments, input, folder);
  const api::PlanReceiver receive = [&files](const api::ProfiledPipeline&, int number, const plan::Plan& made) {
    files.add_plan(number, made);
  };
  JointPlanSummary summary;
  summary.result = input.free_layers ? plan_jointly(input.problem, *input.free_layers, options, receive, &progress)
                                     : plan_jointly(input.problem, options, receive, &progress);
  api::JointPlanResult& result = summary.result;
  result.warnings.insert(result.warnings.end(), input.doubts.begin(), input.doubts.end());
  if (!input.problem.may_split()) {
    result.warnings.emplace_back(
        "orders with split backwards are left out, as the profile has none: measure them, or give --backward-split");
  }
  for (const api::PlannedOrder& order : result.orders) files.add_order(order, run_file_of(order, options));
  api::RunFile run = run_file_of(result, options);
  run.layers = arguments.changed_layers;
  if (run.layers && run.joint->partition) run.layers->counts = run.joint->partition->chosen;
  files.add_run(run, result);
  if (is_quick_to_verify(result)) summary.verified = verified(files.texts(), progress);
  api::RunContents contents = api::read_joint_contents(files.texts());
  contents.verified = summary.verified;
  folder.write(output_file::kReport, report::render_html_report(report::build_report(contents)));
  return summary;
}

void say_warnings(const std::vector<std::string>& warnings, const std::vector<std::string>& findings,
                  const std::vector<std::string>& said, Console& console) {
  for (const std::string& warning : warnings) {
    if (std::ranges::find(said, warning) != said.end()) continue;
    const bool is_finding = std::ranges::find(findings, warning) != findings.end();
    is_finding ? console.warn(warning) : console.note(warning);
  }
}

}  // namespace lowgear::cli

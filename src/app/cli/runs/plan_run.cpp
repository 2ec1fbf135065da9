#include "app/cli/runs/plan_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <utility>

#include "app/cli/runs/plan_tables.h"
#include "app/cli/runs/replayed_plan.h"
#include "app/cli/terminal/version.h"
#include "base/core/error.h"
#include "planning/plan/perseus_plan.h"
#include "planning/plan/plan_json.h"
#include "planning/planner/frontier/certificate.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/profile/example_profile.h"
#include "planning/profile/profile_latency.h"
#include "planning/schedule/torch_csv.h"
#include "report/report/html_report.h"

namespace lowgear {
namespace {

/// Largest pipelines and sets of plans for which the report shows what other policies do, and which are verified before
/// they are written. Beyond, `lowgear compare` and `lowgear verify` do it on demand.
constexpr std::size_t kMaxOpsToCompare = 20'000;
constexpr std::size_t kMaxOpsToVerify = 1'000'000;

/// Energy that plans of Perseus state: without blocking.
double effective_energy_j(const PlanningProblem& problem, std::span<const int> clocks_mhz) {
  double energy_j = 0;
  for (std::size_t i = 0; i < clocks_mhz.size(); ++i) {
    const ComputeOp& op = problem.dag->ops[i];
    const Measurement& m = problem.profile->at_clock(op.stage, op.kind, clocks_mhz[i]);
    energy_j += m.energy_j - problem.blocking_power_w[static_cast<std::size_t>(op.rank)] * m.time_s;
  }
  return energy_j;
}

/// A plan for Perseus or Zeus, until all are there.
struct WrittenPerseusPlan {
  PerseusPlan plan;
  double effective_energy_j = 0;
  double energy_j = 0;
};

/// One run of `lowgear plan`: what it works on, and the files it has written.
class PlanRun {
 public:
  PlanRun(const PlanArguments& arguments, PipelineInput input, StagedDirectory& folder, Progress& progress)
      : arguments_(&arguments), input_(std::move(input)), folder_(&folder), progress_(&progress) {}

  PlanSummary make() {
    if (arguments_->pipeline.gpu_name.size() > kMaxGpuNameBytes) {
      throw InputError(fmt::format("--gpu: a name has at most {} bytes, as nvidia-smi -L prints it", kMaxGpuNameBytes));
    }
    if (arguments_->policy != kLowgearPolicy) choose_schedule();
    CertificateRecorder certificate;
    const std::array<FrontierObserver*, 1> observers{&certificate};
    PipelinePlanner planner(input_.schedule, input_.profile, input_.blocking_power_w,
                            planner_options(arguments_->planner), observers, progress_);
    write_inputs();
    write_frontier(planner);
    write_file(files_.certificate, output_file::kCertificate, certificate.text());
    const Timeline baseline = replay_under(input_.problem(), max_clocks_mhz(input_.problem()), conditions());
    summary_.baseline = {baseline.time_s, baseline.energy_j_total};
    make_all_plans(planner);
    write_perseus_plans();
    write_file(files_.plans_table, output_file::kPlans, write_plans_table(summary_.plans));
    if (!arguments_->planner.switch_latency.is_known()) replay_late();
    describe_run(planner);
    write_file(files_.run, output_file::kRun, write_run(summary_.run));
    if (input_.dag.ops.size() * summary_.plans.size() <= kMaxOpsToVerify) verify_files();
    write_report();
    return std::move(summary_);
  }

 private:
  [[nodiscard]] ReplayConditions conditions() const { return {arguments_->planner.switch_latency.latency_s(), {}}; }

  void write_file(PlanFolder::File& kept, std::string_view name, std::string text) {
    folder_->write(name, text);
    kept = {std::string(name), std::move(text)};
  }

  /// A policy may run another order than it was given; the frontier and the bounds are then for that order.
  void choose_schedule() {
    policy_ =
        make_policy(arguments_->policy, {arguments_->perseus_unit_s, arguments_->pipeline.schedule.extra_activations});
    if (arguments_->deadlines.plans) {
      throw InputError("--plans: only the policy lowgear makes several plans; give --deadline for one at a time");
    }
    progress_->update("planning with " + arguments_->policy, -1);
    PolicyPlan answer = policy_->plan(input_.problem(), std::nullopt);
    if (answer.schedule) {
      input_.schedule = std::move(*answer.schedule);
      input_.dag = build_dag(input_.schedule);
      summary_.run.warnings.push_back(
          fmt::format("{} runs its own order: frontier and bounds are for that order", arguments_->policy));
    }
    answer_ = std::move(answer);
  }

  void write_inputs() {
    write_file(files_.profile, output_file::kProfile,
               with_switch_latency(write_stage_profile(input_.profile), input_.switch_latency_s));
    write_file(files_.schedule, output_file::kSchedule, write_torch_csv(input_.schedule));
  }

  void write_frontier(const PipelinePlanner& planner) {
    summary_.frontier = frontier_points(planner.frontier());
    summary_.epsilon = planner.method() == FrontierMethod::exact ? 0 : planner.frontier().epsilon();
    lower_bound_ = lower_bound_points(planner.frontier(), planner.method());
    if (!lower_bound_.empty()) folder_->write(output_file::kLowerBound, write_frontier_table(lower_bound_));
    if (arguments_->policy != "perseus") {
      write_file(files_.frontier, output_file::kFrontier, write_frontier_table(summary_.frontier));
      return;
    }
    // Perseus has a frontier of its own, on its model: that is what was asked for. Ours proves the bounds.
    write_file(files_.frontier, output_file::kExactFrontier, write_frontier_table(summary_.frontier));
    std::vector<ReportPoint> points;
    for (const auto& row : PerseusModel(input_.problem(), arguments_->perseus_unit_s).frontier()) {
      points.push_back({row.time_s, row.energy_j});
    }
    std::ranges::reverse(points);
    folder_->write(output_file::kFrontier, write_frontier_table(points));
  }

  void make_all_plans(PipelinePlanner& planner) {
    warn_of_late_changes(planner);
    const auto single = single_deadline_s(arguments_->deadlines, planner.fastest_s(), planner.slowest_s());
    if (single && *single > planner.slowest_s()) {
      summary_.run.warnings.push_back(
          fmt::format("the deadline of {} s is later than T* = {} s, from where waiting only costs: the plan is for T*",
                      *single, planner.slowest_s()));
    }
    if (policy_ != nullptr) {
      keep_plan(policy_plan(planner, single));
    } else {
      const auto deadlines = deadlines_s(arguments_->deadlines, planner.fastest_s(), planner.slowest_s());
      for (std::size_t i = 0; i < deadlines.size(); ++i) {
        progress_->update("planning clocks", static_cast<double>(i) / static_cast<double>(deadlines.size()));
        keep_plan(planner.plan(deadlines[i]));
      }
    }
  }

  void warn_of_late_changes(const PipelinePlanner& planner) {
    const double without_latency_s = s_from_ps(planner.frontier().fastest_ps());
    constexpr double kWorthAWord = 5e-4;  // relative
    if (planner.fastest_s() <= without_latency_s * (1 + kWorthAWord)) return;
    summary_.run.warnings.push_back(fmt::format(
        "T_min is {:.6g} s with this switch latency, {:.2f} % after the frontier's: the highest clock is not "
        "the fastest everywhere (noise, or a power cap; see lowgear inspect), and changes come late",
        planner.fastest_s(), 100 * (planner.fastest_s() / without_latency_s - 1)));
  }

  Plan policy_plan(const PipelinePlanner& planner, std::optional<double> deadline_s) {
    const PlanningProblem problem = input_.problem();
    if (deadline_s) answer_ = policy_->plan(problem, deadline_s);
    const Timeline timeline = replay_under(problem, answer_.clocks_mhz, conditions());
    Plan plan = plan_of_replay(arguments_->policy, problem, timeline, answer_.clocks_mhz);
    plan.lower_bound_j = planner.frontier().lower_bound_j_at(ps_from_s(plan.time_s));
    if (!answer_.note.empty()) summary_.run.warnings.push_back(fmt::format("{}: {}", plan.policy, answer_.note));
    if (deadline_s && plan.time_s > *deadline_s) {
      summary_.run.warnings.push_back(
          fmt::format("{}: its plan takes {} s when replayed, longer than the deadline of "
                      "{} s",
                      plan.policy, plan.time_s, *deadline_s));
    }
    plan.deadline_s = std::max(plan.time_s, deadline_s.value_or(0));
    return plan;
  }

  void keep_plan(Plan plan) {
    plan.gpu_name = arguments_->pipeline.gpu_name;
    const int number = static_cast<int>(summary_.plans.size());
    summary_.plans.push_back(plan_row(number, plan));
    write_file(files_.plans.emplace_back(), output_file::plan(number), write_plan(plan));
    if (arguments_->perseus_format) perseus_plans_.push_back(perseus_plan_of(plan));
    if (input_.dag.ops.size() * files_.plans.size() > kMaxOpsToVerify) files_.plans.back().text.clear();
    if (number != 0 && !keeps_time(plan.time_s, summary_.baseline.time_s)) return;
    summary_.shown_plan = number;
    shown_ = std::move(plan);
  }

  [[nodiscard]] WrittenPerseusPlan perseus_plan_of(const Plan& plan) const {
    const std::vector<int> clocks = clocks_for(plan, input_.dag);
    return {perseus_plan(input_.dag, clocks), effective_energy_j(input_.problem(), clocks), plan.energy_j};
  }

  /// Numbered as lowtime does, slowest first: Perseus' server runs a folder in the order of names, and its users look
  /// for faster plans at higher numbers.
  void write_perseus_plans() {
    std::optional<double> slower_effective_j;
    int number = 0;
    for (const WrittenPerseusPlan& written : perseus_plans_ | std::views::reverse) {
      const PerseusPlanFigures figures{
          .iteration = number,
          .cost_change_j = slower_effective_j ? written.effective_energy_j - *slower_effective_j : 0,
          .total_cost_j = written.effective_energy_j,
          .refined_cost_j = written.energy_j};
      folder_->write(output_file::perseus_plan(number),
                     write_perseus_plan(written.plan, figures, *arguments_->perseus_format));
      slower_effective_j = written.effective_energy_j;
      ++number;
    }
  }

  /// What the shown plan and its baseline take when clock changes come as late as they may.
  void replay_late() {
    const ReplayConditions late{kAssumedSwitchLatencyS, {}};
    const Timeline baseline = replay_under(input_.problem(), max_clocks_mhz(input_.problem()), late);
    const Timeline plan = replay_under(input_.problem(), clocks_for(shown_, input_.dag), late);
    summary_.late = {.switch_latency_s = kAssumedSwitchLatencyS,
                     .plan = {plan.time_s, plan.energy_j_total},
                     .baseline = {baseline.time_s, baseline.energy_j_total}};
  }

  void describe_run(PipelinePlanner& planner) {
    RunFile& run = summary_.run;
    run.version = version();
    run.command = arguments_->command;
    run.policy = arguments_->policy;
    run.profile = input_.profile_name;
    run.stages = input_.dag.ranks;
    run.microbatches = input_.dag.microbatches;
    run.schedule = input_.schedule.name;
    run.blocking_power_w = input_.blocking_power_w;
    run.method = planner.method();
    run.epsilon = arguments_->planner.epsilon;
    run.granularity = arguments_->planner.granularity;
    run.switch_latency_s = arguments_->planner.switch_latency.latency_s();
    if (input_.unit_warning) run.warnings.push_back(*input_.unit_warning);
    if (is_example_profile(input_.profile)) run.warnings.emplace_back(kExampleProfileNotice);
    if (input_.dag.ops.size() <= kMaxOpsToCompare) run.policies = policies_for_report(planner);
  }

  /// What the other policies do, for the report: those that answer at once.
  std::vector<ReportPolicy> policies_for_report(PipelinePlanner& planner) {
    std::vector<std::string> names = other_policies();
    if (planner.method() != FrontierMethod::exact) {
      // Perseus' frontier has as many vertices as ours would have.
      std::erase(names, "perseus");
      summary_.run.warnings.emplace_back(
          "the report leaves out the policy perseus, which takes long where stages differ so much; lowgear compare has "
          "it");
    }
    const ComparisonOptions options{
        .policies = std::move(names),
        .baseline = "max",
        .planner = planner_options(arguments_->planner),
        .policy = {arguments_->perseus_unit_s, arguments_->pipeline.schedule.extra_activations},
        .frontier_time_s = 0};
    return report_policies(compare_policies(input_, planner, options, progress_));
  }

  void verify_files() {
    progress_->update("verifying", -1);
    summary_.verified = verify(files_);
    if (summary_.verified->ok()) return;
    throw Error(fmt::format("nothing was written: the plans do not pass verification: {}",
                            summary_.verified->failures.front()));
  }

  void write_report() {
    RunContents contents{.run = summary_.run,
                         .profile = input_.profile,
                         .schedule = input_.schedule,
                         .frontier = summary_.frontier,
                         .lower_bound = lower_bound_,
                         .plans = summary_.plans,
                         .chosen_plan = summary_.shown_plan,
                         .chosen = shown_,
                         .verified = summary_.verified};
    folder_->write(output_file::kReport, render_html_report(build_report(contents)));
  }

  const PlanArguments* arguments_;
  PipelineInput input_;
  StagedDirectory* folder_;
  Progress* progress_;
  std::unique_ptr<Policy> policy_;  ///< null: Lowgear's own planner
  PolicyPlan answer_;               ///< of `policy_`
  PlanFolder files_;
  PlanSummary summary_;
  std::vector<ReportPoint> lower_bound_;
  Plan shown_;                                     ///< number `summary_.shown_plan`
  std::vector<WrittenPerseusPlan> perseus_plans_;  ///< fastest first; empty when they are not asked for
};

}  // namespace

PlanSummary make_plans(const PlanArguments& arguments, PipelineInput input, StagedDirectory& folder,
                       Progress& progress) {
  return PlanRun(arguments, std::move(input), folder, progress).make();
}

}  // namespace lowgear

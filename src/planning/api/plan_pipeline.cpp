#include "planning/api/plan_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/api/job_planner.h"
#include "planning/api/plan_replays.h"
#include "planning/planner/frontier/certificate.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/profile/example_profile.h"

namespace lowgear::api {
namespace {

/// Under what a plan is made beside profile and order.
std::vector<std::string> conditions_of(const PlanRequest& request) {
  std::vector<std::string> conditions;
  if (request.power_cap) conditions.push_back(describe(request.power_cap));
  for (const RankSlowdown& slow : request.slow) {
    conditions.push_back(fmt::format("rank {} at {:g} times the profile's times", slow.rank, slow.factor));
  }
  return conditions;
}

/// Largest pipelines and sets of plans for which it is worked out at once what other policies do, and which are
/// verified before they are written. Beyond, `compare_policies` and `verify` do it on demand.
constexpr std::size_t kMaxOpsToCompare = 20'000;
constexpr std::size_t kMaxOpsToVerify = 1'000'000;

constexpr double kLeastSavingPct = 0.005;  // which is shown as 0.01 %

/// What other policies plan on another thread.
struct OtherAnswers {
  PolicyAnswers answers;
  std::unique_ptr<StartedTask> task;  ///< last: it uses the rest
};

/// The pipeline that a command plans for, whose frontier is solved.
class OnePipeline final : public PipelineSolver {
 public:
  explicit OnePipeline(planner::PipelinePlanner& planner) : solved_(std::make_shared<const SolvedOnce>(planner)) {}

  [[nodiscard]] Solved find(const PipelineProblem& /*problem*/) override { return solved_; }
  [[nodiscard]] Solved solve(const PipelineProblem& /*problem*/, Progress* /*progress*/) override { return solved_; }

 private:
  class SolvedOnce final : public SolvedPipeline {
   public:
    explicit SolvedOnce(planner::PipelinePlanner& planner) : planner_(&planner) {}
    [[nodiscard]] const planner::Frontier& frontier() const override { return planner_->frontier(); }
    [[nodiscard]] bool is_prepared() const override { return false; }
    [[nodiscard]] double fastest_s() const override { return planner_->fastest_s(); }
    [[nodiscard]] plan::Plan plan(double deadline_s, Progress* /*progress*/) const override {
      return planner_->plan(deadline_s);
    }

   private:
    planner::PipelinePlanner* planner_;
  };

  Solved solved_;
};

/// One call of `plan`.
class Planning {
 public:
  Planning(ProfiledPipeline pipeline, const PlanOptions& options, const PlanReceiver& receive, Progress* progress)
      : options_(&options), receive_(&receive), progress_(progress) {
    result_.pipeline = std::move(pipeline);
  }

  PlanResult make() {
    slow_down();
    if (makes_one_plan() && options_->deadlines.plans) refuse_many_plans();
    if (options_->request.policy != planner::kLowgearPolicy) choose_schedule();
    replay_full_clocks();
    start_others();
    planner::CertificateRecorder certificate;
    const std::array<planner::FrontierObserver*, 1> observers{&certificate};
    planner::PipelinePlanner planner(result_.pipeline.schedule, result_.pipeline.profile,
                                     result_.pipeline.blocking_power_w, options_->planner, observers, progress_);
    describe_frontier(planner);
    result_.frontier.certificate = certificate.text();
    make_all_plans(planner);
    if (options_->late_s) replay_late(*options_->late_s);
    warn_of_the_profile();
    if (is_quick_to_compare(result_.pipeline)) compare_with_others(planner);
    return std::move(result_);
  }

 private:
  [[nodiscard]] ReplayConditions conditions() const { return {options_->planner.switch_latency_s, {}}; }

  void tell(const std::string& activity, double fraction = -1) {
    if (progress_ != nullptr) progress_->update(activity, fraction);
  }

  void warn(std::string_view what) { result_.warnings.emplace_back(what); }

  void find(const std::string& what) {
    result_.findings.push_back(what);
    warn(what);
  }

  [[nodiscard]] bool makes_one_plan() const {
    return options_->request.power_cap || options_->request.policy != planner::kLowgearPolicy;
  }

  [[noreturn]] void refuse_many_plans() const {
    throw InputError(
        fmt::format("{} makes one plan at a time; give one deadline",
                    options_->request.power_cap ? "a power cap" : "the policy " + options_->request.policy));
  }

  void slow_down() {
    if (options_->request.slow.empty()) return;
    Replan split = replan(result_.pipeline.dag, result_.pipeline.profile, 1, options_->request.slow, 0);
    result_.pipeline.profile = std::move(split.groups.front().profile);
  }

  /// A policy may run another order than it was given; the frontier and the bounds are then for that order.
  void choose_schedule() {
    const auto policy = options_->request.policies.make(options_->request.policy);
    if (!policy->may_reorder()) return;
    tell("planning with " + options_->request.policy);
    planner::PlanningProblem problem = result_.pipeline.problem(progress_);
    if (options_->request.policy_steps) problem.steps = &options_->request.policy_steps;
    planner::PolicyPlan answer = policy->plan(problem, std::nullopt);
    if (answer.schedule) {
      result_.pipeline.schedule = *answer.schedule;
      result_.pipeline.dag = build_dag(result_.pipeline.schedule);
      warn(fmt::format("{} runs its own order: frontier and bounds are for that order", options_->request.policy));
    }
    answer_ = std::move(answer);
  }

  void replay_full_clocks() {
    const planner::PlanningProblem problem = result_.pipeline.problem();
    result_.baseline = figures_of(replay_under(problem, max_clocks_mhz(problem), conditions()));
    require_lead_within(options_->clock_lead_s, result_.baseline.time_s);
  }

  void describe_frontier(const planner::PipelinePlanner& planner) {
    result_.frontier.method = planner.method();
    result_.frontier.vertices = frontier_points(planner.frontier());
    result_.frontier.lower_bound = lower_bound_points(planner.frontier(), planner.method());
    result_.frontier.epsilon = planner.method() == planner::FrontierMethod::exact ? 0 : planner.frontier().epsilon();
    if (options_->request.policy == planner::kLowgearPolicy) return;
    // Where the policy has a frontier of its own, on its model, that is what was asked for. Ours proves the bounds.
    result_.policy_frontier =
        options_->request.policies.make(options_->request.policy)->frontier(result_.pipeline.problem(progress_));
  }

  void make_all_plans(planner::PipelinePlanner& planner) {
    warn_of_late_changes(planner);
    const auto single = single_deadline_s(options_->deadlines, planner.fastest_s(), planner.slowest_s());
    result_.asked_deadline_s = single;
    // Within a power cap, slower iterations can use less.
    const auto late = beyond_least_energy(single, planner.slowest_s());
    if (late && !options_->request.power_cap) find(*late);
    OnePipeline solved(planner);
    const JobPlanner job({.pipeline = &result_.pipeline, .planner = options_->planner}, solved, progress_);
    if (makes_one_plan() || options_->deadlines.slowdown_pct) return keep_plan(one_plan(job, planner, single));
    const auto deadlines =
        deadlines_s(options_->deadlines, {planner.fastest_s(), planner.slowest_s(), result_.baseline.time_s});
    PlanRequest request = job_request();
    Replan split = job.split(request);
    for (std::size_t i = 0; i < deadlines.size(); ++i) {
      tell("planning clocks", static_cast<double>(i) / static_cast<double>(deadlines.size()));
      split.deadline_s = deadlines[i];
      request.deadline_s = deadlines[i];
      keep_plan(plan_of(job, split, request));
    }
  }

  /// The request for a pipeline whose slow ranks are accounted for already.
  [[nodiscard]] PlanRequest job_request() const {
    PlanRequest request = options_->request;
    request.slow.clear();
    return request;
  }

  plan::Plan plan_of(const JobPlanner& job, const Replan& split, const PlanRequest& request) {
    GroupPlans made = job.plan_groups(split, request);
    if (!made.note.empty()) warn(made.note);
    return std::move(made.plans.front());
  }

  void warn_of_late_changes(const planner::PipelinePlanner& planner) {
    const double without_latency_s = s_from_ps(planner.frontier().fastest_ps());
    constexpr double kWorthAWord = 5e-4;  // relative
    if (planner.fastest_s() <= without_latency_s * (1 + kWorthAWord)) return;
    warn(
        fmt::format("T_min is {:.6g} s with this switch latency, {:.2f} % above the frontier's: clock changes take "
                    "effect late, and the highest clock is not the fastest for every op (noise, or a power limit; see "
                    "lowgear show)",
                    planner.fastest_s(), 100 * (planner.fastest_s() / without_latency_s - 1)));
  }

  plan::Plan one_plan(const JobPlanner& job, const planner::PipelinePlanner& planner,
                      std::optional<double> deadline_s) {
    plan::Plan made = answer_ ? answered_plan(planner, deadline_s.value_or(0)) : plan_for(job, deadline_s);
    if (deadline_s && made.time_s > *deadline_s * (1 + kDeadlineRounding)) {
      find(fmt::format("the plan of {} takes {:.6g} s when replayed, longer than the deadline of {:.6g} s", made.policy,
                       made.time_s, *deadline_s));
    }
    return made;
  }

  plan::Plan plan_for(const JobPlanner& job, std::optional<double> deadline_s) {
    PlanRequest request = job_request();
    // With a latency T_min is longer than any replay of the fastest clocks.
    const bool is_by_slowdown = options_->deadlines.slowdown_pct && options_->planner.switch_latency_s == 0;
    (is_by_slowdown ? request.slowdown_pct : request.deadline_s) =
        is_by_slowdown ? options_->deadlines.slowdown_pct : deadline_s;
    return plan_of(job, job.split(request), request);
  }

  plan::Plan answered_plan(const planner::PipelinePlanner& planner, double deadline_s) {
    const std::string& policy = options_->request.policy;
    plan::Plan made =
        plan_of_answer(policy, result_.pipeline.problem(), *answer_, options_->planner.switch_latency_s, deadline_s);
    made.lower_bound_j = planner.frontier().lower_bound_j_at(ps_from_s(made.time_s));
    warn(fmt::format("policy {}: {}", policy, answer_->note));
    return made;
  }

  /// Keeps a plan unless it equals the one before, which keeps the earlier deadline with the same clocks.
  void keep_plan(plan::Plan made) {
    if (has_same_clocks(made, last_)) return;
    made.gpu_name = options_->gpu_name;
    made.simulated = result_.pipeline.simulated;
    made.clock_lead_s = options_->clock_lead_s;
    last_ = made;
    const int number = static_cast<int>(result_.plans.size());
    result_.plans.push_back(plan_row(number, made));
    if (*receive_) (*receive_)(result_.pipeline, number, made);
    if (number != 0 && !keeps_time(made.time_s, result_.baseline.time_s)) return;
    result_.shown_plan = number;
    result_.shown = std::move(made);
  }

  /// Replays the shown plan and its baseline with late clock changes.
  void replay_late(double latency_s) {
    const ReplayConditions late{latency_s, {}};
    const planner::PlanningProblem problem = result_.pipeline.problem();
    const plan::OpChoices choices = choices_for(result_.shown, result_.pipeline.dag);
    result_.late = {.switch_latency_s = latency_s,
                    .plan = figures_of(replay_under(problem, choices, late)),
                    .baseline = figures_of(replay_under(problem, max_clocks_mhz(problem), late))};
  }

  [[nodiscard]] std::string reason_for_no_saving() const {
    if (result_.pipeline.dag.ranks == 1) return "no rank waits for another, as there is one";
    const bool may_save_at_once = result_.shown.lower_bound_j < (1 - kLeastSavingPct / 100) * result_.baseline.energy_j;
    if (options_->planner.switch_latency_s > 0 && may_save_at_once) {
      return fmt::format("clocks that change {} s after their units begin are too late for units of this length",
                         options_->planner.switch_latency_s);
    }
    if (options_->planner.granularity == planner::PlanGranularity::per_stage_kind)
      return "every stage and kind has one clock, and some of its ops have no slack (--granularity op plans a clock "
             "for each op)";
    return "ops that could be slower would use no less energy";
  }

  /// Why the shown plan saves nothing, and what to do; nothing where it saves.
  [[nodiscard]] std::optional<std::string> lack_of_saving() const {
    const bool saves = -change_pct(result_.baseline.energy_j, result_.shown.energy_j) >= kLeastSavingPct;
    const bool is_faster = result_.shown.time_s < (1 - kLeastSavingPct / 100) * result_.baseline.time_s;
    if (saves || is_faster || options_->request.policy != planner::kLowgearPolicy || options_->request.power_cap)
      return std::nullopt;
    const std::vector<profile::StageOp> ops = result_.pipeline.profile.ops();
    const auto has_one_clock = [](const profile::StageOp& op) { return op.measurements.size() == 1; };
    if (std::ranges::all_of(ops, has_one_clock)) {
      return "the plan saves nothing: the profile has one clock per op, so there is nothing to choose; measure more "
             "clocks (lowgear profile)";
    }
    const bool has_slower =
        result_.frontier.vertices.back().energy_j < (1 - kLeastSavingPct / 100) * result_.baseline.energy_j;
    return fmt::format("the plan saves nothing in the time of full clocks: {}; {}", reason_for_no_saving(),
                       has_slower ? "allow slower iterations: a slower plan (--slowdown 2), or, for one clock that is "
                                    "found in the running job, lowgear run --search slowdown=2%"
                                  : "measure more clocks (lowgear profile)");
  }

  void warn_of_the_profile() {
    for (const std::string& condition : conditions_of(options_->request)) warn("planned for " + condition);
    if (const auto lack = lack_of_saving()) warn(*lack);
    const auto fastest = std::ranges::min_element(result_.plans, {}, &PlanFigures::time_s);
    if (const auto finding = faster_than_full_clocks(fastest->time_s, result_.baseline.time_s)) find(*finding);
    for (const std::string& doubt : result_.pipeline.doubts) warn(doubt);
    const plan::OpChoices choices = choices_for(result_.shown, result_.pipeline.dag);
    if (const auto interval = predicted_interval(result_.pipeline, choices, {}))
      warn(fmt::format("plan {}: {}", result_.shown_plan, text_of(*interval)));
    if (is_example_profile(result_.pipeline.profile)) warn(profile::kExampleProfileNotice);
    if (!result_.pipeline.profile.has_settings()) return;
    warn(
        "the profile has settings: Lowgear's agent follows the clocks of a plan and settings that are power limits "
        "(pl:300); the training program has to apply all others (lowgear train refuses such a plan)");
  }

  /// Has the other policies plan meanwhile, as for an exact frontier: its method is not known yet.
  void start_others() {
    if (!options_->start || progress_ == nullptr || !is_quick_to_compare(result_.pipeline)) return;
    others_ = std::make_unique<OtherAnswers>();
    others_->task = options_->start([this, &answers = others_->answers](Progress& progress) {
      const ComparisonOptions comparison = comparison_with_others(*options_, planner::FrontierMethod::exact);
      answers = answers_of_policies(result_.pipeline, comparison, &progress);
    });
  }

  PolicyAnswers answers_of_others(const ComparisonOptions& comparison, planner::FrontierMethod method) {
    if (others_ == nullptr || method != planner::FrontierMethod::exact) {
      others_.reset();  // stops it: where the frontier is not exact, some take long
      return answers_of_policies(result_.pipeline, comparison, progress_);
    }
    others_->task->finish("planning with other policies", *progress_);
    return std::move(others_->answers);
  }

  /// Those of the other policies that answer at once.
  void compare_with_others(planner::PipelinePlanner& planner) {
    const ComparisonOptions comparison = comparison_with_others(*options_, planner.method());
    const bool is_asked = options_->planner.method == planner::FrontierMethod::sandwich;
    const std::string_view reason =
        is_asked ? " with --frontier sandwich" : ", which takes long when stages differ this much";
    for (const std::string& name : options_->request.policies.other_names()) {
      if (std::ranges::find(comparison.policies, name) != comparison.policies.end()) continue;
      warn(fmt::format("the report leaves out the policy {}{}; lowgear compare includes it", name, reason));
    }
    result_.policies = compare_policies(result_.pipeline, planner, comparison,
                                        answers_of_others(comparison, planner.method()), progress_)
                           .rows;
  }

  const PlanOptions* options_;
  const PlanReceiver* receive_;
  Progress* progress_;                         ///< may be null
  std::optional<planner::PolicyPlan> answer_;  ///< of a policy that may run an order of its own
  plan::Plan last_;                            ///< that was kept
  PlanResult result_;
  std::unique_ptr<OtherAnswers> others_;  ///< null: not started. Last: it reads the rest
};

}  // namespace

bool misses_deadline(const PlanResult& result) {
  return result.asked_deadline_s && std::ranges::any_of(result.plans, [&](const PlanFigures& plan) {
           return plan.time_s > *result.asked_deadline_s * (1 + kDeadlineRounding);
         });
}

PlanResult plan(ProfiledPipeline pipeline, const PlanOptions& options, const PlanReceiver& receive,
                Progress* progress) {
  if (options.gpu_name.size() > plan::kMaxGpuNameBytes) {
    throw InputError(fmt::format("the name of a GPU has at most {} bytes", plan::kMaxGpuNameBytes));
  }
  return Planning(std::move(pipeline), options, receive, progress).make();
}

ComparisonOptions comparison_with_others(const PlanOptions& options, planner::FrontierMethod method) {
  // A policy's frontier has as many vertices as an exact one of ours would have.
  const bool with_frontiers = method == planner::FrontierMethod::exact;
  return {.table = options.request.policies,
          .policies = options.request.policies.other_names(with_frontiers),
          .baseline = "max",
          .planner = options.planner,
          .now_s = options.now_s,
          .frontier_time_s = 0,
          .late_s = {}};
}

RunFile run_file_of(const ProfiledPipeline& pipeline, planner::FrontierMethod method, const PlanOptions& options) {
  RunFile run;
  run.policy = options.request.policy;
  run.stages = pipeline.dag.ranks;
  run.microbatches = pipeline.dag.microbatches;
  run.schedule = pipeline.schedule.name;
  run.blocking_power_w = pipeline.blocking_power_w;
  run.method = method;
  run.epsilon = options.planner.epsilon;
  run.granularity = options.planner.granularity;
  run.late_by_s = options.planner.switch_latency_s;
  run.clock_lead_s = options.clock_lead_s;
  run.conditions = conditions_of(options.request);
  return run;
}

RunFile run_file_of(const PlanResult& result, const PlanOptions& options) {
  RunFile run = run_file_of(result.pipeline, result.frontier.method, options);
  run.policies = result.policies;
  run.warnings = result.warnings;
  run.asked_deadline_s = result.asked_deadline_s;
  return run;
}

bool is_quick_to_compare(const ProfiledPipeline& pipeline) { return pipeline.dag.ops.size() <= kMaxOpsToCompare; }

bool is_quick_to_verify(const ProfiledPipeline& pipeline, std::size_t plans) {
  return pipeline.dag.ops.size() * plans <= kMaxOpsToVerify;
}

}  // namespace lowgear::api

#include "planning/planner/planners/pipeline_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/planner/frontier/sandwich.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/planner/planners/discrete_planner.h"
#include "planning/planner/planners/fastest_clocks.h"
#include "planning/planner/planners/latency_planner.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/planners/shared_clock_planner.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {
namespace {

constexpr std::string_view kPlanning = "planning for a deadline";

/// Above this the exact frontier is left for the sandwich when the user has not asked for it.
constexpr double kMaxExactSeconds = 4;

/// Predicted time of the exact frontier. The number of vertices grows with the square of the number of different op
/// costs and hardly with microbatches; each vertex costs a search of the network (bench/RESULTS.md: 8 to 64 stages).
double predicted_exact_s(const ProblemInstance& instance) {
  std::set<std::tuple<std::vector<TimePs>, std::vector<PowerNw>>> different;
  for (const ConvexCost& cost : instance.costs) different.emplace(cost.time_ps, cost.slope_nw);
  const auto count = static_cast<double>(different.size());
  const double vertices = 500 + 13 * count * count;
  constexpr double kSecondsPerOp = 25e-9;
  return vertices * static_cast<double>(instance.op_count()) * kSecondsPerOp;
}

FrontierMethod chosen_method(FrontierMethod asked, const ProblemInstance& instance) {
  if (asked != FrontierMethod::automatic) return asked;
  return predicted_exact_s(instance) <= kMaxExactSeconds ? FrontierMethod::exact : FrontierMethod::sandwich;
}

/// What solves a pipeline's frontier and its deadlines. Heap-held parts point to each other: neither copied nor moved.
class FrontierHolder {
 public:
  virtual ~FrontierHolder() = default;
  [[nodiscard]] virtual const Frontier& frontier() const = 0;
  [[nodiscard]] virtual ContinuousSolver& solver() = 0;
};

class ExactHolder final : public FrontierHolder {
 public:
  ExactHolder(const ProblemInstance& instance, std::span<FrontierObserver* const> observers, Progress* progress,
              WorkReport& work)
      : checkpoints_(instance),
        frontier_(solve(instance, observers, progress)),
        solver_(instance, &checkpoints_, &work) {}
  [[nodiscard]] const Frontier& frontier() const override { return frontier_; }
  [[nodiscard]] ContinuousSolver& solver() override { return solver_; }

 private:
  Frontier solve(const ProblemInstance& instance, std::span<FrontierObserver* const> observers, Progress* progress) {
    std::vector<FrontierObserver*> all(observers.begin(), observers.end());
    all.push_back(&checkpoints_);
    return solve_frontier(instance, all, progress);
  }

  Checkpoints checkpoints_;
  Frontier frontier_;
  DeadlineSolver solver_;
};

class SandwichHolder final : public FrontierHolder {
 public:
  SandwichHolder(const ProblemInstance& instance, double epsilon, std::span<FrontierObserver* const> observers,
                 Progress* progress, WorkReport& work)
      : sandwich_(solve_sandwich(instance, epsilon, observers, progress)), solver_(sandwich_, &work) {}
  [[nodiscard]] const Frontier& frontier() const override { return sandwich_.frontier; }
  [[nodiscard]] ContinuousSolver& solver() override { return solver_; }

 private:
  Sandwich sandwich_;
  SandwichSolver solver_;
};

}  // namespace

std::string_view name(FrontierMethod method) {
  switch (method) {
    case FrontierMethod::automatic:
      return "automatic";
    case FrontierMethod::exact:
      return "exact";
    case FrontierMethod::sandwich:
      return "sandwich";
  }
  return "";
}

namespace {

/// The choices of a plan's ops, and their replayed timeline.
struct ReplayedChoices {
  plan::OpChoices choices;
  simulator::Timeline timeline;
};

/// A plan's clocks are shifted and shared where changes come late, and settings would have to go along.
void require_changes_at_once(const profile::StageProfile& profile, double switch_latency_s) {
  if (!profile.has_settings() || !(switch_latency_s > 0)) return;
  throw InputError(fmt::format(
      "a profile with settings can only be planned for instant clock changes, not for {} ms of latency: leave "
      "--no-ask-ahead out, or give --switch-latency instant",
      switch_latency_s * 1e3));
}

}  // namespace

struct PipelinePlanner::Impl {
  Impl(const schedule::Schedule& schedule, profile::StageProfile given_profile, std::span<const double> power_w,
       const PlannerOptions& given_options, std::span<FrontierObserver* const> observers, Progress* given_progress)
      : schedule_name(schedule.name),
        options(given_options),
        work(given_progress),
        profile(std::move(given_profile)),
        blocking_power_w(power_w.begin(), power_w.end()),
        dag(build_dag(schedule)),
        model(make_planning_model(dag, profile, blocking_power_w)),
        method(chosen_method(options.method, model.instance)) {
    require_changes_at_once(profile, options.switch_latency_s);
    if (method == FrontierMethod::exact) {
      solved = std::make_unique<ExactHolder>(model.instance, observers, given_progress, work);
    } else {
      solved = std::make_unique<SandwichHolder>(model.instance, options.epsilon, observers, given_progress, work);
    }
    if (options.switch_latency_s > 0) {
      const LatencyPlanner latency = latency_planner();
      fastest_late = FastestClocks(dag, profile, latency, &work).find(s_from_ps(solved->frontier().fastest_ps()));
    }
  }

  LatencyPlanner latency_planner() {
    return {dag, profile, blocking_power_w, options.switch_latency_s, options.granularity, &work};
  }

  TimePs fastest_ps() const {
    const TimePs of_frontier_ps = solved->frontier().fastest_ps();
    return fastest_late ? std::max(of_frontier_ps, ps_not_below_s(fastest_late->timeline.time_s)) : of_frontier_ps;
  }

  TimePs slowest_ps() const { return std::max(solved->frontier().slowest_ps(), fastest_ps()); }

  /// The discrete planner. Made when first needed: a frontier alone does not need it.
  DiscretePlanner& per_op() {
    if (discrete) return *discrete;
    discrete.emplace(model, solved->solver(), &work);
    try {
      discrete->prepare(solved->frontier());
    } catch (...) {
      discrete.reset();  // stopped: half a library would plan worse for good
      throw;
    }
    work.begin(kPlanning, -1);
    return *discrete;
  }

  plan::OpChoices choices(const DiscretePlan& plan) const {
    plan::OpChoices chosen;
    chosen.clocks_mhz.reserve(plan.choice.size());
    for (std::size_t op = 0; op < plan.choice.size(); ++op) {
      const std::vector<ClockChoice>& choices = model.choices_of(static_cast<int>(op));
      const ClockChoice& choice = choices[static_cast<std::size_t>(plan.choice[op])];
      chosen.clocks_mhz.push_back(choice.clock_mhz);
      if (profile.has_settings()) chosen.settings.push_back(choice.setting);
    }
    return chosen;
  }

  /// Where clocks change at once; refuses a latency that is no time.
  simulator::Timeline replayed(const plan::OpChoices& chosen) const {
    return simulator::replay(dag, simulator::costs_with_switch_latency(dag, profile, chosen, options.switch_latency_s),
                             blocking_power_w);
  }

  /// Iteration time of T_min's clocks, as replayed.
  double fastest_replayed_s() const {
    if (fastest_late) return fastest_late->timeline.time_s;
    DiscretePlan fastest;
    fastest.choice.assign(dag.ops.size(), 0);
    return simulator::replay(dag, simulator::costs_at_clocks(dag, profile, choices(fastest)), blocking_power_w).time_s;
  }

  std::optional<plan::OpChoices> shared_choices(ClockGroups groups, TimePs deadline_ps) {
    SharedClockPlanner planner(model, std::move(groups), &work);
    const std::optional<DiscretePlan> plan = planner.plan(solved->solver().solve(deadline_ps));
    if (!plan) return std::nullopt;
    return choices(*plan);
  }

  plan::OpChoices with_fewest_changes(PlanGranularity granularity, plan::OpChoices chosen) const {
    return without_needless_changes(dag, profile, blocking_power_w, granularity, std::move(chosen));
  }

  /// The choices of ops one by one, or of ops that share them.
  std::optional<plan::OpChoices> choices_at(PlanGranularity granularity, TimePs at_ps) {
    const bool one_per_kind = granularity == PlanGranularity::per_stage_kind;
    std::optional<plan::OpChoices> chosen =
        one_per_kind ? shared_choices(groups_by_stage_and_kind(model), at_ps) : choices(per_op().plan(at_ps));
    if (chosen) chosen = with_fewest_changes(granularity, std::move(*chosen));
    return chosen;
  }

  /// `deadline_ps` must be within T_min and T*.
  ReplayedChoices best_choices(TimePs deadline_ps) {
    work.begin(kPlanning, -1);
    if (!fastest_late) {
      // The fastest option of every (stage, kind) keeps T_min, so that there always is one.
      plan::OpChoices chosen = choices_at(options.granularity, deadline_ps).value();
      simulator::Timeline timeline = replayed(chosen);
      return {std::move(chosen), std::move(timeline)};
    }
    const auto clocks_of = [](std::optional<plan::OpChoices> chosen) {
      return chosen ? std::optional(std::move(chosen->clocks_mhz)) : std::nullopt;
    };
    const auto by_time = [&](TimePs) { return std::optional(fastest_late->clocks_mhz); };
    const auto by_kind = [&](TimePs at_ps) { return clocks_of(choices_at(PlanGranularity::per_stage_kind, at_ps)); };
    const auto by_rank = [&](TimePs at_ps) { return clocks_of(shared_choices(groups_by_rank(dag), at_ps)); };
    const auto by_op = [&](TimePs at_ps) { return clocks_of(choices_at(PlanGranularity::per_op, at_ps)); };
    std::vector<LatencyPlanner::Proposal> proposals{by_time, by_kind, by_rank};
    if (options.granularity == PlanGranularity::per_op) proposals.emplace_back(by_op);
    ReplayedClocks found = latency_planner().plan(proposals, solved->frontier().fastest_ps(), deadline_ps).value();
    return {{std::move(found.clocks_mhz), {}}, std::move(found.timeline)};
  }

  std::string refusal(double deadline_s) const {
    std::string text =
        fmt::format("deadline {} s cannot be kept: T_min, the fastest iteration of this pipeline, is {} s", deadline_s,
                    rounded_up(s_from_ps(fastest_ps())));
    const TimePs of_frontier_ps = solved->frontier().fastest_ps();
    if (fastest_ps() > of_frontier_ps) {
      text += fmt::format(" with a switch latency of {} ms, and {:.6g} s without one", options.switch_latency_s * 1e3,
                          s_from_ps(of_frontier_ps));
    }
    return text + "; give it or a later one";
  }

  /// Within T_min and T*. Throws InputError for a deadline that cannot be kept.
  TimePs deadline_ps(double deadline_s) const {
    if (!(deadline_s <= kMaxTimeS)) {
      throw InputError(fmt::format("deadline {} s is not a time below 10^6 s", deadline_s));
    }
    TimePs asked_ps = deadline_s < 0 ? 0 : ps_from_s(deadline_s);
    // T_min is made of times rounded up; the unrounded ones may take some picoseconds less.
    if (asked_ps < fastest_ps() && deadline_s >= fastest_replayed_s()) asked_ps = fastest_ps();
    if (asked_ps < fastest_ps()) throw InputError(refusal(deadline_s));
    return std::min(asked_ps, slowest_ps());
  }

  plan::Plan plan(double deadline_s, TimePs deadline_ps) {
    const ReplayedChoices found = best_choices(deadline_ps);
    plan::Plan plan;
    plan.policy = "lowgear";
    plan.schedule = schedule_name;
    plan.microbatches = dag.microbatches;
    plan.deadline_s = deadline_s;
    plan.time_s = found.timeline.time_s;
    plan.energy_j = found.timeline.energy_j_total;
    plan.lower_bound_j = solved->frontier().lower_bound_j_at(ps_from_s(plan.time_s));
    plan.ranks = planned_ops(dag, found.timeline, found.choices);
    plan.switches = count_switches(plan.ranks);
    return plan;
  }

  std::string schedule_name;
  PlannerOptions options;
  WorkReport work;
  profile::StageProfile profile;
  std::vector<double> blocking_power_w;
  schedule::PipelineDag dag;
  PlanningModel model;
  FrontierMethod method;
  std::unique_ptr<FrontierHolder> solved;
  std::optional<DiscretePlanner> discrete;
  std::optional<ReplayedClocks> fastest_late;  ///< T_min's clocks; empty without a switch latency
};

PipelinePlanner::PipelinePlanner(const schedule::Schedule& schedule, const profile::StageProfile& profile,
                                 std::span<const double> blocking_power_w, const PlannerOptions& options,
                                 std::span<FrontierObserver* const> observers, Progress* progress)
    : impl_(std::make_unique<Impl>(schedule, profile, blocking_power_w, options, observers, progress)) {}

PipelinePlanner::~PipelinePlanner() = default;
PipelinePlanner::PipelinePlanner(PipelinePlanner&&) noexcept = default;
PipelinePlanner& PipelinePlanner::operator=(PipelinePlanner&&) noexcept = default;

const Frontier& PipelinePlanner::frontier() const { return impl_->solved->frontier(); }
const schedule::PipelineDag& PipelinePlanner::dag() const { return impl_->dag; }
FrontierMethod PipelinePlanner::method() const { return impl_->method; }
double PipelinePlanner::fastest_s() const { return s_from_ps(impl_->fastest_ps()); }
double PipelinePlanner::slowest_s() const { return s_from_ps(impl_->slowest_ps()); }

plan::Plan PipelinePlanner::plan(double deadline_s) { return impl_->plan(deadline_s, impl_->deadline_ps(deadline_s)); }

}  // namespace lowgear::planner

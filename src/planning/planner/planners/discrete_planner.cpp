#include "planning/planner/planners/discrete_planner.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lowgear::planner {
namespace {

using Direction = RoundingRule::Direction;

/// Which rounding is best differs from deadline to deadline; these few were each best somewhere (bench/RESULTS.md).
constexpr auto kRoundings = std::to_array<RoundingRule>({
    {Direction::forward, 0},
    {Direction::forward, 13},
    {Direction::forward, 16},
    {Direction::backward, 0},
    {Direction::backward, 13},
    {Direction::backward, 16},
});

/// In visits of ops, as the library's deadlines are counted (deadline_grid.h).
constexpr std::size_t kSpliceVisits = 300'000;

/// A trade costs a few makespans, and there can be one per op.
constexpr std::size_t kMaxOpsToTrade = 2'000;

/// How often the library is gone through again: at its deadlines, and between them. Two rounds lower the mean gap by a
/// tenth where clocks are far apart, further ones hardly.
constexpr TimePs kRefinements = 2;

/// Deadlines on either side of a single one for which plans are refined.
constexpr TimePs kNeighbours = 8;

/// Visits of one splice, per op: some 12 makespans and a reclaim.
constexpr std::size_t kVisitsPerSplice = 16;

/// Ops that start together stay in the graph's order: one that takes no time comes before those that wait for it.
std::vector<std::int32_t> in_order_of_start(const PrecedenceGraph& graph, const ContinuousPlan& continuous) {
  std::vector<std::int32_t> order(graph.order().begin(), graph.order().end());
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return continuous.start_by_ps[static_cast<std::size_t>(a)] < continuous.start_by_ps[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace

DiscretePlanner::DiscretePlanner(const PlanningModel& model, ContinuousSolver& solver, WorkReport* work)
    : model_(&model),
      solver_(&solver),
      work_(work),
      rounder_(model, work),
      library_(model.instance.blocking_power_nw) {}

DeadlineGrid DiscretePlanner::grid_over(const Frontier& frontier) const {
  const auto ops = static_cast<std::size_t>(model_->instance.op_count());
  return deadline_grid(frontier.fastest_ps(), frontier.slowest_ps(), ops);
}

void DiscretePlanner::prepare(const Frontier& frontier) { fill(frontier, {0, grid_over(frontier).count}); }

void DiscretePlanner::prepare_for(const Frontier& frontier, TimePs deadline_ps) {
  const DeadlineGrid grid = grid_over(frontier);
  if (grid.step_ps == 0) return;
  const TimePs place = (deadline_ps - grid.fastest_ps) / grid.step_ps;
  fill(frontier, {std::max<TimePs>(0, place - kNeighbours), std::min(grid.count, place + kNeighbours + 1)});
}

void DiscretePlanner::fill(const Frontier& frontier, Refined refined) {
  const DeadlineGrid grid = grid_over(frontier);
  if (grid.step_ps == 0) return;
  if (static_cast<std::size_t>(model_->instance.op_count()) > kMaxOpsToTrade) refined.end = refined.begin;
  const TimePs steps = grid.count + kRefinements * (refined.end - refined.begin);
  TimePs done = 0;
  const auto report = [&] {
    const double fraction = static_cast<double>(++done) / static_cast<double>(steps);
    if (work_ != nullptr) work_->begin("preparing plans", fraction);
  };
  // All of them also for one deadline: the two plans that suit it best may be far apart.
  std::vector<Draft> drafts;
  for (TimePs k = 0; k < grid.count; ++k, report()) {
    const ContinuousPlan continuous = solver_->solve(grid.at_ps(k));
    DiscretePlan rounding = best_rounding(continuous);
    if (k >= refined.begin && k < refined.end) drafts.push_back(drafted(continuous, rounding));
    library_.add(std::move(rounding));
  }
  // Mixtures of mixtures: each round plans with the library of the one before, the second one between the deadlines.
  for (Draft& draft : drafts) {
    library_.add(plan(std::move(draft)));
    report();
  }
  for (TimePs k = refined.begin; k < refined.end; ++k, report()) {
    library_.add(plan(std::min(grid.at_ps(k) + grid.step_ps / 2, frontier.slowest_ps())));
  }
}

DiscretePlanner::Draft DiscretePlanner::drafted(const ContinuousPlan& continuous, DiscretePlan rounding) const {
  return {continuous.deadline_ps, in_order_of_start(rounder_.graph(), continuous), std::move(rounding)};
}

DiscretePlan DiscretePlanner::plan(TimePs deadline_ps) {
  const ContinuousPlan continuous = solver_->solve(deadline_ps);
  return plan(drafted(continuous, best_rounding(continuous)));
}

DiscretePlan DiscretePlanner::plan(Draft draft) {
  const TimePs deadline_ps = draft.deadline_ps;
  const std::size_t ops = draft.order.size();
  std::size_t reach = 1;
  while (2 * (reach + 1) * (reach + 1) * ops * kVisitsPerSplice <= kSpliceVisits && reach < 6) ++reach;
  std::vector<DiscretePlan> candidates{std::move(draft.rounding)};
  if (const DiscretePlan* prepared = library_.best_within(deadline_ps)) candidates.push_back(*prepared);
  if (auto spliced = library_.splice(rounder_, draft.order, deadline_ps, reach)) {
    candidates.push_back(std::move(*spliced));
  }
  const std::size_t to_trade = ops <= kMaxOpsToTrade ? candidates.size() : 0;
  for (std::size_t k = 0; k < to_trade; ++k) {
    // In addition to the one that it is made of: trades use all time up to the deadline, which may cost more waiting
    // than they save.
    DiscretePlan traded = candidates[k];
    rounder_.trade_between_neighbours(traded, deadline_ps);
    candidates.push_back(std::move(traded));
  }
  return *std::ranges::min_element(candidates, {}, [this](const DiscretePlan& candidate) {
    return candidate.total_energy_zj(model_->instance.blocking_power_nw);
  });
}

DiscretePlan DiscretePlanner::best_rounding(const ContinuousPlan& continuous) {
  const PowerNw power_nw = model_->instance.blocking_power_nw;
  DiscretePlan best = rounder_.round(continuous, kRoundings[0]);
  for (const RoundingRule& rule : std::span(kRoundings).subspan(1)) {
    DiscretePlan plan = rounder_.round(continuous, rule);
    if (plan.total_energy_zj(power_nw) < best.total_energy_zj(power_nw)) best = std::move(plan);
  }
  return best;
}

}  // namespace lowgear::planner

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

/// Work is counted in visits of ops, so that a pipeline of any size gets plans in a similar time (about 5 ns each).
constexpr std::size_t kLibraryVisits = 6'000'000;
constexpr std::size_t kSpliceVisits = 300'000;

/// A trade costs a few makespans, and there can be one per op.
constexpr std::size_t kMaxOpsToTrade = 2'000;

/// How often the library is gone through again: at its deadlines, and between them. Two rounds lower the mean gap by a
/// tenth where clocks are far apart, further ones hardly.
constexpr TimePs kRefinements = 2;

/// Deadlines on either side of a single one for which plans are refined.
constexpr TimePs kNeighbours = 8;

/// Visits of one rounding with its reclaim, per op.
constexpr std::size_t kVisitsPerRounding = 6;
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

DiscretePlanner::Grid DiscretePlanner::grid_over(const Frontier& frontier) const {
  const auto ops = static_cast<std::size_t>(model_->instance.op_count());
  const std::size_t visits_per_plan = ops * std::size(kRoundings) * kVisitsPerRounding;
  const auto count = static_cast<TimePs>(std::clamp<std::size_t>(kLibraryVisits / visits_per_plan, 16, 192));
  const TimePs step_ps = (frontier.slowest_ps() - frontier.fastest_ps()) / (count - 1);
  return {frontier.fastest_ps(), frontier.slowest_ps(), step_ps, count, 0, count};
}

void DiscretePlanner::prepare(const Frontier& frontier) { fill(grid_over(frontier)); }

void DiscretePlanner::prepare_for(const Frontier& frontier, TimePs deadline_ps) {
  Grid grid = grid_over(frontier);
  if (grid.step_ps == 0) return;
  const TimePs place = (deadline_ps - grid.first_ps) / grid.step_ps;
  grid.begin = std::max(grid.begin, place - kNeighbours);
  grid.end = std::min(grid.end, place + kNeighbours + 1);
  fill(grid);
}

void DiscretePlanner::fill(const Grid& grid) {
  if (grid.step_ps == 0) return;
  const auto ops = static_cast<std::size_t>(model_->instance.op_count());
  const TimePs refined = ops <= kMaxOpsToTrade ? grid.end - grid.begin : 0;
  const TimePs steps = grid.count + kRefinements * refined;
  TimePs done = 0;
  const auto report = [&] {
    const double fraction = static_cast<double>(++done) / static_cast<double>(steps);
    if (work_ != nullptr) work_->begin("preparing plans", fraction);
  };
  // All of them also for one deadline: the two plans that suit it best may be far apart.
  std::vector<Draft> drafts;
  for (TimePs k = 0; k < grid.count; ++k, report()) {
    const ContinuousPlan continuous = solver_->solve(grid.first_ps + grid.step_ps * k);
    DiscretePlan rounding = best_rounding(continuous);
    if (k >= grid.begin && k < grid.begin + refined) drafts.push_back(drafted(continuous, rounding));
    library_.add(std::move(rounding));
  }
  // Mixtures of mixtures: each round plans with the library of the one before, the second one between the deadlines.
  for (Draft& draft : drafts) {
    library_.add(plan(std::move(draft)));
    report();
  }
  for (TimePs k = grid.begin; k < grid.begin + refined; ++k, report()) {
    library_.add(plan(std::min(grid.first_ps + grid.step_ps * k + grid.step_ps / 2, grid.last_ps)));
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

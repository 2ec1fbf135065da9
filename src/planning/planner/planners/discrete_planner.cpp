#include "planning/planner/planners/discrete_planner.h"

#include <algorithm>
#include <array>
#include <string_view>
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

/// Places of the grid on either side of a deadline whose mixtures are in its library; half as far, those between them.
/// Two such rounds lower the mean gap by a tenth where clocks are far apart, further ones hardly.
constexpr TimePs kNeighbours = 8;

constexpr std::string_view kPreparing = "preparing plans";

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
      roundings_(model.instance.blocking_power_nw) {}

DeadlineGrid DiscretePlanner::grid_over(const Frontier& frontier) const {
  const auto ops = static_cast<std::size_t>(model_->instance.op_count());
  return deadline_grid(frontier.fastest_ps(), frontier.slowest_ps(), ops);
}

void DiscretePlanner::prepare(const Frontier& frontier) {
  const DeadlineGrid grid = grid_over(frontier);
  if (grid.step_ps == 0) return;
  const bool is_refined = static_cast<std::size_t>(model_->instance.op_count()) <= kMaxOpsToTrade;
  // All of them also for one deadline: the two plans that suit it best may be far apart.
  for (TimePs place = 0; place < grid.count; ++place) {
    if (work_ != nullptr) work_->begin(kPreparing, static_cast<double>(place + 1) / static_cast<double>(grid.count));
    const ContinuousPlan continuous = solver_->solve(grid.at_ps(place));
    DiscretePlan rounding = best_rounding(continuous);
    if (is_refined) drafts_.push_back(drafted(continuous, rounding));
    roundings_.add(std::move(rounding));
  }
  grid_ = grid;
  mixtures_at_.resize(drafts_.size());
  mixtures_after_.resize(drafts_.size());
}

const DiscretePlan& DiscretePlanner::mixture_at(TimePs place) {
  std::optional<DiscretePlan>& made = mixtures_at_[static_cast<std::size_t>(place)];
  if (!made) made = plan(drafts_[static_cast<std::size_t>(place)], roundings_);
  return *made;
}

const DiscretePlan& DiscretePlanner::mixture_after(TimePs place) {
  std::optional<DiscretePlan>& made = mixtures_after_[static_cast<std::size_t>(place)];
  if (!made) {
    PlanLibrary library = roundings_;
    add_mixtures(library, place, kNeighbours / 2);
    const ContinuousPlan continuous = solver_->solve(grid_.at_ps(place) + grid_.step_ps / 2);
    made = plan(drafted(continuous, best_rounding(continuous)), library);
  }
  return *made;
}

void DiscretePlanner::add_mixtures(PlanLibrary& library, TimePs place, TimePs reach) {
  const TimePs end = std::min(place + reach + 1, static_cast<TimePs>(drafts_.size()));
  for (TimePs near = std::max<TimePs>(0, place - reach); near < end; ++near) library.add(mixture_at(near));
}

PlanLibrary DiscretePlanner::library_near(TimePs place) {
  PlanLibrary library = roundings_;
  add_mixtures(library, place, kNeighbours);
  constexpr TimePs kReach = kNeighbours / 2;
  const TimePs end = std::min(place + kReach + 1, static_cast<TimePs>(drafts_.size()) - 1);
  for (TimePs near = std::max<TimePs>(0, place - kReach); near < end; ++near) library.add(mixture_after(near));
  return library;
}

DiscretePlanner::Draft DiscretePlanner::drafted(const ContinuousPlan& continuous, DiscretePlan rounding) const {
  return {continuous.deadline_ps, in_order_of_start(rounder_.graph(), continuous), std::move(rounding)};
}

DiscretePlan DiscretePlanner::plan(TimePs deadline_ps) {
  const ContinuousPlan continuous = solver_->solve(deadline_ps);
  Draft draft = drafted(continuous, best_rounding(continuous));
  if (drafts_.empty()) return plan(std::move(draft), roundings_);
  return plan(std::move(draft), library_near((deadline_ps - grid_.fastest_ps) / grid_.step_ps));
}

DiscretePlan DiscretePlanner::plan(Draft draft, const PlanLibrary& library) {
  const TimePs deadline_ps = draft.deadline_ps;
  const std::size_t ops = draft.order.size();
  std::size_t reach = 1;
  while (2 * (reach + 1) * (reach + 1) * ops * kVisitsPerSplice <= kSpliceVisits && reach < 6) ++reach;
  std::vector<DiscretePlan> candidates{std::move(draft.rounding)};
  if (const DiscretePlan* prepared = library.best_within(deadline_ps)) candidates.push_back(*prepared);
  if (auto spliced = library.splice(rounder_, draft.order, deadline_ps, reach)) {
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

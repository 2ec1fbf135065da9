#include "planning/planner/planners/discrete_planner.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "planning/planner/planners/planning_model.h"

namespace lowgear::planner {

namespace {

/// Whether `middle` lies on or above the line from `fast` to `slow`.
bool is_beaten(const DiscretePlan& fast, const DiscretePlan& middle, const DiscretePlan& slow, PowerNw power_nw) {
  // In doubles: a plan that is kept or dropped by a rounding error is as good as the mixture.
  const auto energy = [power_nw](const DiscretePlan& plan) {
    return static_cast<double>(plan.total_energy_zj(power_nw));
  };
  const auto share = static_cast<double>(middle.makespan_ps - fast.makespan_ps) /
                     static_cast<double>(slow.makespan_ps - fast.makespan_ps);
  return energy(middle) >= energy(fast) + share * (energy(slow) - energy(fast));
}

/// `first`'s clocks for the first `count` ops of `order`, `rest`'s for the others.
std::vector<std::int32_t> split(const DiscretePlan& first, const DiscretePlan& rest,
                                std::span<const std::int32_t> order, std::size_t count) {
  std::vector<std::int32_t> choice = rest.choice;
  for (const std::int32_t op : order.first(count)) {
    choice[static_cast<std::size_t>(op)] = first.choice[static_cast<std::size_t>(op)];
  }
  return choice;
}

/// The number of ops of a plan's clocks between `fits`, which keeps the deadline, and `too_many`, found by halving.
template <typename Makespan>
std::size_t largest_within(std::size_t fits, std::size_t too_many, TimePs deadline_ps, Makespan makespan_ps) {
  while (too_many - fits > 1) {
    const std::size_t middle = (fits + too_many) / 2;
    (makespan_ps(middle) <= deadline_ps ? fits : too_many) = middle;
  }
  return fits;
}

/// `fast` with as many clocks of `slow` as keep the deadline, from the start of the iteration.
DiscretePlan slow_at_first(Rounder& rounder, const DiscretePlan& fast, const DiscretePlan& slow,
                           std::span<const std::int32_t> order, TimePs deadline_ps) {
  const SplitPlan times(rounder.model(), rounder.graph(), order, slow.choice, fast.choice);
  const std::size_t count =
      largest_within(0, order.size(), deadline_ps, [&](std::size_t c) { return times.makespan_ps(c); });
  return rounder.reclaim_slack(split(slow, fast, order, count), deadline_ps);
}

/// The same from its end.
DiscretePlan slow_at_last(Rounder& rounder, const DiscretePlan& fast, const DiscretePlan& slow,
                          std::span<const std::int32_t> order, TimePs deadline_ps) {
  const std::size_t ops = order.size();
  const SplitPlan times(rounder.model(), rounder.graph(), order, fast.choice, slow.choice);
  const std::size_t count =
      largest_within(0, ops, deadline_ps, [&](std::size_t c) { return times.makespan_ps(ops - c); });
  return rounder.reclaim_slack(split(fast, slow, order, ops - count), deadline_ps);
}

}  // namespace

void PlanLibrary::add(DiscretePlan plan) {
  const auto energy = [this](const DiscretePlan& p) { return p.total_energy_zj(blocking_power_nw_); };
  auto place = std::lower_bound(plans_.begin(), plans_.end(), plan.makespan_ps,
                                [](const DiscretePlan& p, TimePs t) { return p.makespan_ps < t; });
  if (place != plans_.end() && place->makespan_ps == plan.makespan_ps && energy(*place) <= energy(plan)) return;
  if (place != plans_.begin() && energy(*std::prev(place)) <= energy(plan)) return;
  if (place != plans_.begin() && place != plans_.end() && place->makespan_ps > plan.makespan_ps &&
      is_beaten(*std::prev(place), plan, *place, blocking_power_nw_)) {
    return;
  }
  // Slower plans that use no less, or that the new one and the next slower one beat.
  auto end = place;
  while (end != plans_.end() &&
         (energy(*end) >= energy(plan) ||
          (std::next(end) != plans_.end() && is_beaten(plan, *end, *std::next(end), blocking_power_nw_)))) {
    ++end;
  }
  place = plans_.erase(place, end);
  while (place - plans_.begin() >= 2 && is_beaten(*(place - 2), *(place - 1), plan, blocking_power_nw_)) {
    place = plans_.erase(place - 1);
  }
  plans_.insert(place, std::move(plan));
}

PlanLibrary::Position PlanLibrary::first_slower_than(TimePs deadline_ps) const {
  return std::upper_bound(plans_.begin(), plans_.end(), deadline_ps,
                          [](TimePs time_ps, const DiscretePlan& plan) { return time_ps < plan.makespan_ps; });
}

const DiscretePlan* PlanLibrary::best_within(TimePs deadline_ps) const {
  const auto slower = first_slower_than(deadline_ps);
  return slower == plans_.begin() ? nullptr : &*std::prev(slower);
}

std::optional<DiscretePlan> PlanLibrary::splice(Rounder& rounder, std::span<const std::int32_t> order,
                                                TimePs deadline_ps, std::size_t reach) const {
  const auto slow = first_slower_than(deadline_ps);
  const auto fast_count = std::min(reach, static_cast<std::size_t>(slow - plans_.begin()));
  const auto slow_count = std::min(reach, static_cast<std::size_t>(plans_.end() - slow));
  std::optional<DiscretePlan> best;
  for (std::size_t f = 1; f <= fast_count; ++f) {
    const DiscretePlan& faster = *(slow - static_cast<std::ptrdiff_t>(f));
    for (std::size_t s = 0; s < slow_count; ++s) {
      const DiscretePlan& slower = *(slow + static_cast<std::ptrdiff_t>(s));
      for (const auto mixture_within : {slow_at_first, slow_at_last}) {
        DiscretePlan plan = mixture_within(rounder, faster, slower, order, deadline_ps);
        if (!best || plan.total_energy_zj(blocking_power_nw_) < best->total_energy_zj(blocking_power_nw_)) {
          best = std::move(plan);
        }
      }
    }
  }
  return best;
}

SplitPlan::SplitPlan(const PlanningModel& model, const PrecedenceGraph& graph, std::span<const std::int32_t> order,
                     std::span<const std::int32_t> first, std::span<const std::int32_t> rest)
    : graph_(&graph),
      order_(order),
      position_(order.size()),
      finish_ps_(order.size()),
      tail_ps_(order.size()),
      first_ps_(order.size() + 1),
      rest_ps_(order.size() + 1) {
  for (std::size_t i = 0; i < order.size(); ++i) position_[at(order[i])] = i;
  sweep_forwards(model, first);
  sweep_backwards(model, rest);
}

void SplitPlan::sweep_forwards(const PlanningModel& model, std::span<const std::int32_t> first) {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::int32_t op = order_[i];
    TimePs start_ps = 0;
    for (const std::int32_t before : graph_->predecessors(op)) {
      start_ps = std::max(start_ps, finish_ps_[at(before)]);
      widest_ = std::max(widest_, i - position_[at(before)]);
    }
    finish_ps_[at(op)] = start_ps + model.choices_of(op)[at(first[at(op)])].time_ps;
    first_ps_[i + 1] = std::max(first_ps_[i], finish_ps_[at(op)]);
  }
}

void SplitPlan::sweep_backwards(const PlanningModel& model, std::span<const std::int32_t> rest) {
  for (std::size_t i = order_.size(); i-- > 0;) {
    const std::int32_t op = order_[i];
    TimePs after_ps = 0;
    for (const std::int32_t after : graph_->successors(op)) after_ps = std::max(after_ps, tail_ps_[at(after)]);
    tail_ps_[at(op)] = after_ps + model.choices_of(op)[at(rest[at(op)])].time_ps;
    rest_ps_[i] = std::max(rest_ps_[i + 1], tail_ps_[at(op)]);
  }
}

TimePs SplitPlan::makespan_ps(std::size_t count) const {
  TimePs makespan_ps = std::max(first_ps_[count], rest_ps_[count]);
  for (std::size_t i = count - std::min(count, widest_); i < count; ++i) {
    const std::int32_t op = order_[i];
    for (const std::int32_t after : graph_->successors(op)) {
      if (position_[at(after)] < count) continue;
      makespan_ps = std::max(makespan_ps, finish_ps_[at(op)] + tail_ps_[at(after)]);
    }
  }
  return makespan_ps;
}

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

/// In visits of ops, as the library's deadlines are counted (`DeadlineGrid`).
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

#include "planning/planner/planners/plan_library.h"

#include <algorithm>
#include <utility>

#include "planning/planner/planners/split_plan.h"

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

}  // namespace lowgear::planner

#include "planning/planner/planners/plan_library.h"

#include <algorithm>
#include <utility>

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

/// `base` with the clocks of `other` for the first `count` ops of `order`.
std::vector<std::int32_t> mixed(const DiscretePlan& base, const DiscretePlan& other,
                                std::span<const std::int32_t> order, std::size_t count) {
  std::vector<std::int32_t> choice = base.choice;
  for (const std::int32_t op : order.first(count)) {
    choice[static_cast<std::size_t>(op)] = other.choice[static_cast<std::size_t>(op)];
  }
  return choice;
}

/// `fast` with as many clocks of `slow` as keep the deadline, taken in `order`.
DiscretePlan mixture_within(Rounder& rounder, const DiscretePlan& fast, const DiscretePlan& slow,
                            std::span<const std::int32_t> order, TimePs deadline_ps) {
  std::size_t fits = 0;
  std::size_t too_many = order.size();
  while (too_many - fits > 1) {
    const std::size_t middle = (fits + too_many) / 2;
    (rounder.makespan_ps(mixed(fast, slow, order, middle)) <= deadline_ps ? fits : too_many) = middle;
  }
  return rounder.reclaim_slack(mixed(fast, slow, order, fits), deadline_ps);
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
  const std::vector<std::int32_t> reversed(order.rbegin(), order.rend());
  std::optional<DiscretePlan> best;
  for (std::size_t f = 1; f <= fast_count; ++f) {
    for (std::size_t s = 0; s < slow_count; ++s) {
      for (const std::span<const std::int32_t> from : {order, std::span<const std::int32_t>(reversed)}) {
        DiscretePlan plan = mixture_within(rounder, *(slow - static_cast<std::ptrdiff_t>(f)),
                                           *(slow + static_cast<std::ptrdiff_t>(s)), from, deadline_ps);
        if (!best || plan.total_energy_zj(blocking_power_nw_) < best->total_energy_zj(blocking_power_nw_)) {
          best = std::move(plan);
        }
      }
    }
  }
  return best;
}

}  // namespace lowgear::planner

#include "planning/planner/planners/rounding.h"

#include <algorithm>
#include <array>
#include <utility>

#include "planning/planner/planners/planning_model.h"

namespace lowgear::planner {

OptionTable::OptionTable(const PlanningModel& model) {
  std::vector<Place> place_of_cost;
  for (const std::vector<ClockChoice>& choices : model.choices) {
    place_of_cost.push_back({static_cast<std::uint32_t>(time_ps_.size()), static_cast<std::uint32_t>(choices.size())});
    for (const ClockChoice& choice : choices) {
      time_ps_.push_back(choice.time_ps);
      effective_energy_zj_.push_back(choice.effective_energy_zj);
    }
  }
  for (const int cost : model.instance.cost_of_op) place_.push_back(place_of_cost[at(cost)]);
}

Rounder::Rounder(const PlanningModel& model, WorkReport* work)
    : model_(&model),
      work_(work),
      graph_(model.instance),
      options_(model),
      finish_ps_(graph_.order().size()),
      latest_finish_ps_(graph_.order().size()),
      latest_start_ps_(graph_.order().size()),
      next_on_rank_(graph_.order().size(), -1),
      position_(graph_.order().size()),
      marked_(graph_.order().size(), 0) {
  for (std::size_t i = 0; i < position_.size(); ++i) position_[at(graph_.order()[i])] = i;
  for (std::size_t op = 0; op + 1 < model.rank_of_op.size(); ++op) {
    if (model.rank_of_op[op] == model.rank_of_op[op + 1]) next_on_rank_[op] = static_cast<std::int32_t>(op) + 1;
  }
}

/// Of one sweep over all ops.
void Rounder::report_visits() const {
  if (work_ != nullptr) work_->visited(finish_ps_.size());
}

TimePs Rounder::earliest_start_ps(std::int32_t op) const {
  TimePs start_ps = 0;
  for (const std::int32_t before : graph_.predecessors(op)) start_ps = std::max(start_ps, finish_ps_[at(before)]);
  return start_ps;
}

TimePs Rounder::latest_finish_ps(std::int32_t op, TimePs deadline_ps) const {
  TimePs finish_ps = deadline_ps;
  for (const std::int32_t after : graph_.successors(op)) finish_ps = std::min(finish_ps, latest_start_ps_[at(after)]);
  return finish_ps;
}

std::int32_t Rounder::cheapest_within(std::int32_t op, TimePs window_ps, PowerNw price_nw) const {
  const std::span<const TimePs> times_ps = options_.times_ps(op);
  const std::span<const EnergyZj> energies_zj = options_.effective_energies_zj(op);
  std::int32_t best = 0;
  EnergyZj least_zj = 0;
  for (std::size_t k = 0; k < times_ps.size() && (k == 0 || times_ps[k] <= window_ps); ++k) {
    const EnergyZj value_zj = energies_zj[k] + static_cast<EnergyZj>(price_nw) * times_ps[k];
    if (k == 0 || value_zj <= least_zj) {
      least_zj = value_zj;
      best = static_cast<std::int32_t>(k);
    }
  }
  return best;
}

DiscretePlan Rounder::round(const ContinuousPlan& continuous, RoundingRule rule) {
  std::vector<std::int32_t> choice(finish_ps_.size(), 0);
  const auto price_nw = [&](std::int32_t op) { return continuous.op_flow_nw[at(op)] / 16 * rule.price_sixteenths; };
  if (rule.direction == RoundingRule::Direction::forward) {
    for (const std::int32_t op : graph_.order()) {
      const TimePs start_ps = earliest_start_ps(op);
      choice[at(op)] = cheapest_within(op, continuous.finish_by_ps[at(op)] - start_ps, price_nw(op));
      finish_ps_[at(op)] = start_ps + options_.time_ps(op, choice[at(op)]);
    }
  } else {
    for (const std::int32_t op : graph_.reverse_order()) {
      const TimePs finish_ps = latest_finish_ps(op, continuous.deadline_ps);
      choice[at(op)] = cheapest_within(op, finish_ps - continuous.start_by_ps[at(op)], price_nw(op));
      latest_start_ps_[at(op)] = finish_ps - options_.time_ps(op, choice[at(op)]);
    }
  }
  report_visits();
  return reclaim_slack(std::move(choice), continuous.deadline_ps);
}

void Rounder::slow_down_within(std::int32_t op, TimePs window_ps, std::vector<std::int32_t>& choice) const {
  const std::span<const TimePs> times_ps = options_.times_ps(op);
  std::int32_t& k = choice[at(op)];
  while (at(k) + 1 < times_ps.size() && times_ps[at(k) + 1] <= window_ps) ++k;
}

DiscretePlan Rounder::reclaim_slack(std::vector<std::int32_t> choice, TimePs deadline_ps) {
  // Three sweeps. The first only notes latest finishes. The second goes forwards, where each op may use what is left up
  // to its latest finish; what it uses is gone for those after it. The third does the same backwards: between the
  // second's earliest starts and finishes that are brought up to date as it goes.
  find_latest_finishes(choice, deadline_ps);
  for (const std::int32_t op : graph_.order()) {
    const TimePs start_ps = earliest_start_ps(op);
    slow_down_within(op, latest_finish_ps_[at(op)] - start_ps, choice);
    finish_ps_[at(op)] = start_ps + options_.time_ps(op, choice[at(op)]);
  }
  report_visits();
  for (const std::int32_t op : graph_.reverse_order()) {
    const TimePs finish_ps = latest_finish_ps(op, deadline_ps);
    slow_down_within(op, finish_ps - earliest_start_ps(op), choice);
    latest_start_ps_[at(op)] = finish_ps - options_.time_ps(op, choice[at(op)]);
  }
  report_visits();
  DiscretePlan plan;
  plan.makespan_ps = makespan_ps(choice);
  for (const std::int32_t op : graph_.order()) {
    plan.effective_energy_zj += options_.effective_energy_zj(op, choice[at(op)]);
  }
  plan.choice = std::move(choice);
  return plan;
}

void Rounder::find_latest_finishes(std::span<const std::int32_t> choice, TimePs deadline_ps) {
  for (const std::int32_t op : graph_.reverse_order()) {
    latest_finish_ps_[at(op)] = latest_finish_ps(op, deadline_ps);
    latest_start_ps_[at(op)] = latest_finish_ps_[at(op)] - options_.time_ps(op, choice[at(op)]);
  }
  report_visits();
}

Rounder::PairWindow Rounder::pair_window(std::int32_t first, std::int32_t second, TimePs deadline_ps) const {
  PairWindow window{earliest_start_ps(first), deadline_ps, 0, latest_finish_ps_[at(second)]};
  for (const std::int32_t after : graph_.successors(first)) {
    if (after != second) window.first_finish_ps = std::min(window.first_finish_ps, latest_start_ps_[at(after)]);
  }
  for (const std::int32_t before : graph_.predecessors(second)) {
    if (before != first) window.second_start_ps = std::max(window.second_start_ps, finish_ps_[at(before)]);
  }
  return window;
}

Rounder::PairChoice Rounder::best_pair(std::int32_t first, std::int32_t second, const PairWindow& window,
                                       std::span<const std::int32_t> choice) const {
  const std::span<const TimePs> first_ps = options_.times_ps(first);
  const std::span<const TimePs> second_ps = options_.times_ps(second);
  const std::span<const EnergyZj> first_zj = options_.effective_energies_zj(first);
  const std::span<const EnergyZj> second_zj = options_.effective_energies_zj(second);
  const EnergyZj now_zj = first_zj[at(choice[at(first)])] + second_zj[at(choice[at(second)])];
  PairChoice best;
  std::size_t s = second_ps.size();  // slowest of the second that still fits, plus one: falls as the first gets slower
  for (std::size_t f = 0; f < first_ps.size(); ++f) {
    const TimePs handover_ps = window.first_start_ps + first_ps[f];
    if (handover_ps > window.first_finish_ps) break;
    const TimePs left_ps = window.second_finish_ps - std::max(handover_ps, window.second_start_ps);
    while (s > 0 && second_ps[s - 1] > left_ps) --s;
    if (s == 0) break;
    const EnergyZj saved_zj = now_zj - first_zj[f] - second_zj[s - 1];
    if (saved_zj > best.saved_zj) best = {saved_zj, static_cast<std::int32_t>(f), static_cast<std::int32_t>(s - 1)};
  }
  return best;
}

void Rounder::trade_between_neighbours(DiscretePlan& plan, TimePs deadline_ps) {
  (void)makespan_ps(plan.choice);  // earliest finishes
  find_latest_finishes(plan.choice, deadline_ps);
  std::vector<std::int32_t> choice = plan.choice;
  for (const std::int32_t first : graph_.order()) {
    const std::int32_t second = next_on_rank_[at(first)];
    if (second < 0) continue;
    const PairChoice best = best_pair(first, second, pair_window(first, second, deadline_ps), choice);
    if (best.saved_zj == 0) continue;
    const std::int32_t first_before = std::exchange(choice[at(first)], best.first);
    const std::int32_t second_before = std::exchange(choice[at(second)], best.second);
    // An op before the second may wait for the first, which the window does not show: only a replay does.
    const std::array<std::int32_t, 2> changed{first, second};
    if (bring_finishes_up_to_date(changed, choice, deadline_ps)) {
      bring_latest_finishes_up_to_date(changed, choice, deadline_ps);
    } else {
      choice[at(first)] = first_before;
      choice[at(second)] = second_before;
    }
  }
  plan = reclaim_slack(std::move(choice), deadline_ps);
}

void Rounder::mark(std::int32_t op) {
  if (marked_[at(op)] != 0) return;
  marked_[at(op)] = 1;
  ++marks_;
}

/// Earliest finishes after the clocks of `changed` have changed, of those ops alone that they concern. False, and the
/// finishes as they were, when one is later than the deadline.
bool Rounder::bring_finishes_up_to_date(std::span<const std::int32_t> changed, std::span<const std::int32_t> choice,
                                        TimePs deadline_ps) {
  finishes_before_.clear();
  std::size_t position = position_.size();
  for (const std::int32_t op : changed) {
    mark(op);
    position = std::min(position, position_[at(op)]);
  }
  bool in_time = true;
  for (; marks_ > 0; ++position) {
    const std::int32_t op = graph_.order()[position];
    if (marked_[at(op)] == 0) continue;
    marked_[at(op)] = 0;
    --marks_;
    const TimePs finish_ps = earliest_start_ps(op) + options_.time_ps(op, choice[at(op)]);
    if (!in_time || finish_ps == finish_ps_[at(op)]) continue;
    in_time = finish_ps <= deadline_ps;
    finishes_before_.emplace_back(op, std::exchange(finish_ps_[at(op)], finish_ps));
    for (const std::int32_t after : graph_.successors(op)) mark(after);
  }
  if (!in_time) {
    for (const auto& [op, finish_ps] : finishes_before_) finish_ps_[at(op)] = finish_ps;
  }
  if (work_ != nullptr) work_->visited(finishes_before_.size());
  return in_time;
}

/// The same for latest finishes and starts.
void Rounder::bring_latest_finishes_up_to_date(std::span<const std::int32_t> changed,
                                               std::span<const std::int32_t> choice, TimePs deadline_ps) {
  std::size_t end = 0;
  for (const std::int32_t op : changed) {
    mark(op);
    end = std::max(end, position_[at(op)]);
  }
  std::size_t visits = 0;
  for (; marks_ > 0; --end) {
    const std::int32_t op = graph_.order()[end];
    if (marked_[at(op)] == 0) continue;
    marked_[at(op)] = 0;
    --marks_;
    ++visits;
    latest_finish_ps_[at(op)] = latest_finish_ps(op, deadline_ps);
    const TimePs start_ps = latest_finish_ps_[at(op)] - options_.time_ps(op, choice[at(op)]);
    if (start_ps == std::exchange(latest_start_ps_[at(op)], start_ps)) continue;
    for (const std::int32_t before : graph_.predecessors(op)) mark(before);
  }
  if (work_ != nullptr) work_->visited(visits);
}

TimePs Rounder::makespan_ps(std::span<const std::int32_t> choice) {
  TimePs makespan_ps = 0;
  for (const std::int32_t op : graph_.order()) {
    finish_ps_[at(op)] = earliest_start_ps(op) + options_.time_ps(op, choice[at(op)]);
    makespan_ps = std::max(makespan_ps, finish_ps_[at(op)]);
  }
  report_visits();
  return makespan_ps;
}

}  // namespace lowgear::planner

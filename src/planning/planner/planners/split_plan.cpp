#include "planning/planner/planners/split_plan.h"

#include <algorithm>

#include "planning/planner/planners/at.h"

namespace lowgear::planner {

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

}  // namespace lowgear::planner

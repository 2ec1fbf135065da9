#include "planning/schedule/freezing.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/core/error.h"
#include "planning/schedule/communication.h"

namespace lowgear::schedule {
namespace {

/// Whether the action is of a backward pass through a stage before `stages`, or brings it a gradient.
bool vanishes(const Action& action, int stages) {
  switch (action.kind) {
    case ActionKind::compute:
      return action.op != OpKind::forward && action.stage < stages;
    case ActionKind::send_b:
      return peer_stage(action) < stages;
    case ActionKind::recv_b:
      return action.stage < stages;
    case ActionKind::send_f:
    case ActionKind::recv_f:
      return false;
  }
  return false;
}

}  // namespace

Schedule with_frozen_stages(const Schedule& schedule, int stages) {
  if (stages < schedule.frozen_stages || stages > schedule.stages) {
    throw InputError(fmt::format("{}: {} frozen stages cannot be made of {} and {} others", schedule.name, stages,
                                 schedule.frozen_stages, schedule.stages - schedule.frozen_stages));
  }
  Schedule result{schedule.name, schedule.stages, schedule.microbatches, {}, stages};
  for (const std::vector<Action>& actions : schedule.ranks) {
    std::vector<Action>& kept = result.ranks.emplace_back();
    std::copy_if(actions.begin(), actions.end(), std::back_inserter(kept),
                 [stages](const Action& action) { return !vanishes(action, stages); });
  }
  return result;
}

int stages_without_backward(const Schedule& schedule) {
  int first = schedule.stages;
  for (const auto& actions : schedule.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::compute && action.op != OpKind::forward) first = std::min(first, action.stage);
    }
  }
  return first == schedule.stages ? 0 : std::max(first, 0);
}

}  // namespace lowgear::schedule

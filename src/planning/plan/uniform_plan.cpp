#include "planning/plan/uniform_plan.h"

#include <utility>
#include <vector>

namespace lowgear {

Plan uniform_plan(const Schedule& schedule, int clock_mhz, std::string policy) {
  Plan plan;
  plan.policy = std::move(policy);
  plan.schedule = schedule.name;
  plan.microbatches = schedule.microbatches;
  for (const std::vector<Action>& actions : schedule.ranks) {
    std::vector<PlannedOp>& ops = plan.ranks.emplace_back();
    for (const Action& action : actions) {
      if (action.kind != ActionKind::compute) continue;
      ops.push_back(
          {.stage = action.stage, .kind = action.op, .microbatch = action.microbatch, .clock_mhz = clock_mhz});
    }
  }
  return plan;
}

}  // namespace lowgear

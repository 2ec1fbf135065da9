#include "planning/plan/uniform_plan.h"

#include <utility>
#include <vector>

namespace lowgear::plan {

Plan uniform_plan(const schedule::Schedule& schedule, int clock_mhz, std::string policy) {
  Plan plan;
  plan.policy = std::move(policy);
  plan.schedule = schedule.name;
  plan.microbatches = schedule.microbatches;
  for (const std::vector<schedule::Action>& actions : schedule.ranks) {
    std::vector<PlannedOp>& ops = plan.ranks.emplace_back();
    for (const schedule::Action& action : actions) {
      if (action.kind != schedule::ActionKind::compute) continue;
      ops.push_back(
          {.stage = action.stage, .kind = action.op, .microbatch = action.microbatch, .clock_mhz = clock_mhz});
    }
  }
  return plan;
}

}  // namespace lowgear::plan

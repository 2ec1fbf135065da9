#pragma once

#include "base/core/formats/json.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"

namespace lowgear::protocol {

/// The smallest plan that a server may offer: one rank, one unit, 1200 MHz.
inline Json one_op_plan() {
  plan::Plan plan;
  plan.policy = "test";
  plan.schedule = "gpipe";
  plan.microbatches = 1;
  plan.time_s = plan.deadline_s = 1;
  plan.ranks = {{{.clock_mhz = 1200, .duration_s = 1}}};
  return parse_json(write_plan(plan), "plan");
}

}  // namespace lowgear::protocol

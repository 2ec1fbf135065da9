#pragma once

#include <span>

#include "planning/plan/plan.h"
#include "planning/planner/planners/granularity.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"

namespace lowgear::planner {

/// Gives ops for which the clock makes no difference (an input gradient that takes no time) the clock of the op before
/// on their rank, so that no change is requested for them: wherever the profile says that an op takes no longer and no
/// more energy at that clock. Where all ops of a (stage, kind) share a clock, they take the one from before the first
/// of them. An op that gets another clock gets a setting of that clock. `blocking_power_w` by rank; `choices` have to
/// be of the profile.
[[nodiscard]] plan::OpChoices without_needless_changes(const schedule::PipelineDag& dag,
                                                       const profile::StageProfile& profile,
                                                       std::span<const double> blocking_power_w,
                                                       PlanGranularity granularity, plan::OpChoices choices);

}  // namespace lowgear::planner

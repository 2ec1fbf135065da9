#pragma once

#include <span>
#include <vector>

#include "planning/joint/orders/joint_problem.h"
#include "planning/schedule/list_schedule.h"
#include "planning/schedule/schedule.h"

namespace lowgear::joint {

/// The orders that are known by name and fit into memory: 1F1B, GPipe, interleaved with 2 stages a rank, EnvPipe's with
/// as many early forwards as fit, and with split backwards ZB-H1, ZB-H2 and ZB-V. 1F1B fits every limit from the number
/// of ranks on; which are left out is not an error.
[[nodiscard]] std::vector<schedule::Schedule> known_orders(const JointProblem& problem);

/// List schedules that fit into memory, for one layout and the given times of its stages' ops (at full clocks, or as
/// planned clocks make them): one for each of a few rules, always in the same sequence; some may be equal. Named
/// `list`, `list-v` and `list-interleaved`.
[[nodiscard]] std::vector<schedule::Schedule> list_orders(const JointProblem& problem,
                                                          const schedule::StageLayout& layout,
                                                          std::span<const schedule::StageTimes> times);

/// The layouts that list schedules are made for: one stage a rank, and with two stages a rank looped and V-shaped ones.
[[nodiscard]] std::vector<schedule::StageLayout> layouts(int ranks);

/// Times of every stage's ops at its highest clocks, for `list_orders`.
[[nodiscard]] std::vector<schedule::StageTimes> times_at_full_clocks(const JointProblem& problem,
                                                                     const schedule::StageLayout& layout);

}  // namespace lowgear::joint

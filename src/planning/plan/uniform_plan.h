#pragma once

#include <string>

#include "planning/plan/plan.h"
#include "planning/schedule/schedule.h"

namespace lowgear::plan {

/// Every computation of a schedule at one clock, in its order: how a clock is held to measure what units take at it.
/// Times and energy are not known and 0. `policy` says what it is for.
[[nodiscard]] Plan uniform_plan(const schedule::Schedule& schedule, int clock_mhz, std::string policy);

}  // namespace lowgear::plan

#pragma once

namespace lowgear::planner {

enum class PlanGranularity {
  per_op,          ///< every computation has its own clock
  per_stage_kind,  ///< one clock for all computations of a (stage, kind): few switches
};

}  // namespace lowgear::planner

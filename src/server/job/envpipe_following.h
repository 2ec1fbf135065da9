#pragma once

#include <cstdint>
#include <string>

#include "planning/planner/policies/envpipe/envpipe_reconfiguration.h"

namespace lowgear::server {

/// How far the policy `envpipe` of a job has come.
struct EnvPipeFollowing {
  planner::EnvPipeState state;  ///< without clocks: there is no plan yet
  bool is_finished = false;     ///< the reconfiguration has ended
  int version = 0;              ///< of the plan with these clocks; 0: none
  std::uint64_t asked = 0;      ///< serial of the task that decides
  std::string problem = {};     ///< why nothing was decided last; empty: it was
};

}  // namespace lowgear::server

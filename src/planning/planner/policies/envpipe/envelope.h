#pragma once

#include <vector>

#include "planning/schedule/dag.h"

namespace lowgear::planner {

/// EnvPipe's outer envelope (Choi et al., USENIX ATC 2023), by op: everything on the last stage, the first
/// microbatch's forward and the last microbatch's backward on every stage. Found by position, not by timing.
[[nodiscard]] std::vector<bool> outer_envelope(const schedule::PipelineDag& dag);

}  // namespace lowgear::planner

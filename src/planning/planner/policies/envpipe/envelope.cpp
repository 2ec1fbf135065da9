#include "planning/planner/policies/envpipe/envelope.h"

namespace lowgear::planner {

std::vector<bool> outer_envelope(const schedule::PipelineDag& dag) {
  std::vector<bool> envelope;
  envelope.reserve(dag.ops.size());
  for (const schedule::ComputeOp& op : dag.ops) {
    const bool first_forward = op.kind == OpKind::forward && op.microbatch == 0;
    const bool last_backward = op.kind != OpKind::forward && op.microbatch == dag.microbatches - 1;
    envelope.push_back(op.stage == dag.stages - 1 || first_forward || last_backward);
  }
  return envelope;
}

}  // namespace lowgear::planner

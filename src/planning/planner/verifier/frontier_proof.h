#pragma once

#include <optional>

#include "planning/planner/verifier/findings.h"
#include "planning/planner/verifier/pipeline.h"
#include "planning/planner/verifier/proven_frontier.h"
#include "planning/planner/verifier/verify.h"

namespace lowgear::planner::verifier {

/// Checks every vertex of a certificate and gives what they prove together. A vertex proves
///   - a point, when every op's time is one that it can have and their longest path takes the time that is stated: sum
///     of effective energies at that time;
///   - a line, when its flow f is nowhere negative, leaves every op as it enters it, and has the stated value L: for
///     any times d, sum g(d) >= sum over ops of min over t of (g(t) + f t) - L x longest path of d, since the flow can
///     be split into paths, none of which is longer.
/// At the first vertex that is not sound it adds a finding and returns nothing: what follows builds on it. Throws
/// InputError when the text cannot be read.
[[nodiscard]] std::optional<ProvenFrontier> prove_frontier(const Pipeline& pipeline,
                                                           const PlanFolder::File& certificate, Findings& findings);

}  // namespace lowgear::planner::verifier

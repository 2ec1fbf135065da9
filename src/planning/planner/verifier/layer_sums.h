#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "planning/planner/verifier/pipeline.h"
#include "planning/planner/verifier/verify.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::planner::verifier {

/// A profile with one stage for each rank, and the file that it is from.
struct NamedProfile {
  const profile::StageProfile* stages = nullptr;  ///< must outlive its use
  std::string name;
};

/// Checks what a run states of its partition (`given` and `chosen`, layers by rank): both have all layers of the file,
/// and each profile's rows are the sums over the layers of its ranks, with what the first and the last have besides.
/// Returns the number of layers. Throws InputError when the file cannot be read.
int check_partition(const JsonView& partition, const PlanFolder::File& layers, const NamedProfile& given,
                    const NamedProfile& chosen, Findings& findings);

}  // namespace lowgear::planner::verifier

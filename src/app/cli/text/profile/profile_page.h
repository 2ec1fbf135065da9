#pragma once

#include <string>

#include "planning/profile/stage_profile.h"
#include "report/report/estimate_report.h"

namespace lowgear::cli {

/// The page of a stage profile: energy over clock of every stage and kind, and where it is least. `basis` is how the
/// rows were made: `measured`, `simulated`.
[[nodiscard]] report::EstimateReport profile_page(const profile::StageProfile& profile, const std::string& basis,
                                                  std::string command);

}  // namespace lowgear::cli

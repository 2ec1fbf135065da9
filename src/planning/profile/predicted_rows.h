#pragma once

#include <span>
#include <vector>

#include "planning/profile/energy_regression.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// A row of a profile that a model predicted and no GPU measured, with standard errors; 0: not stated.
struct PredictedRow {
  CellKey cell;
  double time_error_s = 0;
  double energy_error_j = 0;

  friend bool operator==(const PredictedRow&, const PredictedRow&) = default;
};

/// The rows of `derived` that rest on predicted rows of `given`: the same rows, and of those that were made from
/// others (a split backward, virtual stages) all at clocks with a predicted row, with the largest share as an error.
[[nodiscard]] std::vector<PredictedRow> predicted_rows_of(const StageProfile& given,
                                                          std::span<const PredictedRow> predicted,
                                                          const StageProfile& derived);

/// The profile with time and energy of all predicted rows this many standard errors higher, above 0.
[[nodiscard]] StageProfile moved_by_errors(const StageProfile& profile, std::span<const PredictedRow> predicted,
                                           double errors);

}  // namespace lowgear::profile

#pragma once

#include <span>
#include <vector>

#include "estimating/curve/curve_sample.h"

namespace lowgear::curve {

/// A load without its numbers of multiprocessors: its type, data and additions.
[[nodiscard]] CurveLoad kind_of(CurveLoad load);

/// Operations of a multiprocessor in a cycle of the reported clock, of a sample with products.
[[nodiscard]] double ops_per_cycle(const CurveSample& sample);

/// Clocks of samples by the rate of their products; the reported mean where there are none, or where the rate depends
/// on more than the clock.
[[nodiscard]] std::vector<double> clocks_by_rate(std::span<const CurveSample> samples);

}  // namespace lowgear::curve

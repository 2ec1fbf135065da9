#pragma once

#include <span>
#include <vector>

#include "estimating/curve/curve_sample.h"

namespace lowgear::curve {

/// A load without its numbers of multiprocessors and its reads: its type, data and additions.
[[nodiscard]] CurveLoad kind_of(CurveLoad load);

/// Whether a load has products that nothing else holds back; reads of device memory beside them may.
[[nodiscard]] bool rate_shows_clock(const CurveLoad& load);

/// Operations of a multiprocessor in a cycle of the reported clock, of a sample with products.
[[nodiscard]] double ops_per_cycle(const CurveSample& sample);

/// Clocks of samples by the rate of their products, below which no clock is; the reported mean where something else may
/// hold them back, or the rate is too far off.
[[nodiscard]] std::vector<double> clocks_by_rate(std::span<const CurveSample> samples);

}  // namespace lowgear::curve

#include "estimating/model/merak_partition.h"

#include <algorithm>
#include <cstddef>

namespace lowgear::model {
namespace {

constexpr double kBottleneckStep = 1e-3;  // parameters

/// Parameters of the pieces up to each, that one included.
std::vector<double> sums_of(std::span<const std::int64_t> parameters) {
  std::vector<double> sums;
  double sum = 0;
  for (const std::int64_t count : parameters) sums.push_back(sum += static_cast<double>(count));
  return sums;
}

struct Filling {
  std::vector<std::int64_t> boundaries;
  bool fits = false;  ///< by Merak's test, which compares the last stage less its first piece where pieces run out
};

/// Fills each stage with as many pieces as stay below the bottleneck.
Filling fill(std::span<const double> sums, int stages, double bottleneck) {
  const auto pieces = static_cast<std::int64_t>(sums.size());
  Filling filling{std::vector<std::int64_t>(static_cast<std::size_t>(stages) + 1, pieces)};
  filling.boundaries.front() = 0;
  double end = bottleneck;
  for (std::size_t stage = 1; stage < static_cast<std::size_t>(stages); ++stage) {
    const std::int64_t boundary = std::ranges::lower_bound(sums, end) - sums.begin();
    filling.boundaries[stage] = boundary;
    if (boundary == pieces) {
      const auto first = static_cast<std::size_t>(filling.boundaries[stage - 1]);
      filling.fits = sums.back() - sums[first] < bottleneck;
      return filling;
    }
    // Before the first piece, Merak's index of the piece before wraps around to the last one.
    end = (boundary == 0 ? sums.back() : sums[static_cast<std::size_t>(boundary) - 1]) + bottleneck;
  }
  filling.fits = end >= sums.back();
  return filling;
}

}  // namespace

std::vector<std::int64_t> merak_even_boundaries(std::int64_t pieces, int stages, MerakRounding rounding) {
  std::int64_t chunk = 1;
  if (pieces > stages) chunk = (pieces + (rounding == MerakRounding::up ? stages - 1 : 0)) / stages;
  std::vector<std::int64_t> boundaries;
  for (int stage = 0; stage < stages; ++stage) boundaries.push_back(std::min(chunk * stage, pieces));
  boundaries.push_back(pieces);
  return boundaries;
}

std::vector<std::int64_t> merak_balanced_boundaries(std::span<const std::int64_t> parameters, int stages) {
  const auto pieces = static_cast<std::int64_t>(parameters.size());
  if (pieces <= stages) return merak_even_boundaries(pieces, stages, MerakRounding::up);
  const std::vector<double> sums = sums_of(parameters);
  double lower = sums.back() / stages;
  double upper = sums.back();
  while (upper > lower + kBottleneckStep) {
    const double middle = lower + (upper - lower) / 2;
    if (fill(sums, stages, middle).fits) {
      upper = middle;
    } else {
      lower = middle + kBottleneckStep;
    }
  }
  return fill(sums, stages, upper).boundaries;
}

}  // namespace lowgear::model

#pragma once

#include <span>
#include <string>

namespace lowgear::adapt {

/// Some iterations of a job, from a state to which it returned afterwards.
struct PrecisionBlock {
  double time_s = 0;
  double energy_j = 0;  ///< NaN: not measured
  double loss = 0;      ///< mean over its iterations, in nats
};

/// The same iterations from the same state on the same data, in both precisions.
struct PrecisionPair {
  PrecisionBlock bf16;
  PrecisionBlock fp8;
};

struct PrecisionChoice {
  bool fp8 = false;
  std::string reason;  ///< one sentence with the numbers
};

/// Whether a job is to compute in fp8. It is if, with Student's two-sided 95 % intervals over the pairs, all of the
/// interval of the energy is below that of bf16, and all of the interval of the loss is at most `loss_margin_pct` above
/// it. Where a block has no energy, time decides in its place; power never does. With fewer than two pairs, or a loss
/// that is not finite, it is not.
[[nodiscard]] PrecisionChoice choose_precision(std::span<const PrecisionPair> pairs, double loss_margin_pct);

}  // namespace lowgear::adapt

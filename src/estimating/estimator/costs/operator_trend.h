#pragma once

#include <array>
#include <span>
#include <vector>

#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// A measured time of an operator.
struct TimedOperator {
  Operator op;
  double time_s = 0;
  int line = 0;  ///< of the sampling file
};

/// Least time that an operator can take on a GPU, by its data sheet: its floating-point operations at peak rate if
/// tensor cores do them, or the bytes that any kernel has to move at the memory's bandwidth, unless they fit into the
/// L2 cache. Throws InputError where the GPU has no such type.
[[nodiscard]] double least_time_s(const Operator& op, const GpuModel& gpu);

/// Time of one kind of operator and one pass as a sum of what it does, each with a cost that is not negative: a launch,
/// floating-point operations, bytes, and the sizes of its tensors. It has the right form beyond the samples, which
/// trees do not; what it leaves is theirs.
class OperatorTrend {
 public:
  /// Fits relative errors, robustly: rows that are far off count little. All of one kind and pass. Throws
  /// std::invalid_argument without samples.
  explicit OperatorTrend(std::span<const TimedOperator> samples);

  /// Above 0.
  [[nodiscard]] double time_s(const Operator& op) const;

 private:
  static constexpr std::size_t kTerms = 7;
  [[nodiscard]] static std::array<double, kTerms> terms(const Operator& op);

  std::array<double, kTerms> cost_s_{};  ///< of one unit of each term
};

}  // namespace lowgear::estimator

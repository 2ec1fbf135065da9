#pragma once

namespace lowgear::estimator {

/// What some work takes on one GPU at its highest SM clock, split by what limits it, so that other clocks and energy
/// follow from it: at clock f it takes `core_s` * f_max / f + `memory_s` + `link_s`.
struct WorkCost {
  double core_s = 0;        ///< kernels limited by the SMs
  double memory_s = 0;      ///< kernels limited by device memory, and launches
  double link_s = 0;        ///< communication that nothing hides
  double flops = 0;         ///< done by tensor cores
  double memory_bytes = 0;  ///< read and written
  double link_bytes = 0;    ///< sent by the GPU, hidden or not
  double error_s = 0;       ///< half the width of a 90 % interval of the time

  [[nodiscard]] double time_s() const { return core_s + memory_s + link_s; }
  /// Times, work and errors are added: kernels of one kind err together.
  WorkCost& operator+=(const WorkCost& other);
  friend WorkCost operator+(WorkCost left, const WorkCost& right) { return left += right; }
  friend WorkCost operator*(double factor, const WorkCost& cost);
};

/// The same work, taking another time in all; what limits it keeps its share. `cost` takes more than 0.
[[nodiscard]] WorkCost taking(const WorkCost& cost, double time_s);

}  // namespace lowgear::estimator

#pragma once

#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/work/operators.h"

namespace lowgear::estimator {

/// Whether its power limit differs from the one under which its kernels were measured.
[[nodiscard]] bool has_own_power_limit(const GpuModel& gpu);

/// Converts work measured under the limit of GpuPower::kernel_limit_w to the GPU's limit: the part that
/// multiprocessors limit scales with the clock that the GPU sustains. The error stays the same share of the time.
[[nodiscard]] WorkCost under_power_limit(const GpuModel& gpu, const WorkCost& work);

/// Time and energy of some work at some clock on one GPU.
struct TimedEnergy {
  double time_s = 0;
  double energy_j = 0;

  [[nodiscard]] double power_w() const { return time_s > 0 ? energy_j / time_s : 0; }
};

/// Energy by consumer.
struct EnergySplit {
  double static_j = 0;   ///< static power while work runs, clock tree included
  double compute_j = 0;  ///< multiprocessors at work
  double memory_j = 0;   ///< traffic of device memory
  double link_j = 0;     ///< traffic between GPUs
  double waiting_j = 0;  ///< blocked while nothing runs

  [[nodiscard]] double total_j() const { return static_j + compute_j + memory_j + link_j + waiting_j; }
  EnergySplit& operator+=(const EnergySplit& other);
  friend EnergySplit operator*(double factor, const EnergySplit& energy);
};

/// Time and energy of one piece of work (a forward of a stage) on one GPU as functions of the SM clock:
///   t(f) = core_s f_s / f + memory_s + link_s             for f <= f_s, and t(f_s) above; wait_s in addition
///   E(f) = (static_w - clock_tree_w + clock_tree_w f V(f)^2 / f_max) t(f)
///        + compute_w core_load core_s f_s / f_max V(f)^2
///        + (memory_w + memory_sm_w f V(f)^2 / f_max) memory_s
///        + link_w (link_bytes / link_bytes_per_s) + (blocking_w - static_w) link_s + blocking_w wait_s
/// Multiprocessors draw power while they are busy, and hardly less when their tensor cores are idle; kernels limited by
/// memory draw the same at 60 and at 90 % of its bandwidth. So energy depends on cycles and time, not on FLOPs and
/// bytes (data/README.md: powers of the operators of an H100).
///
/// f_s is the clock that the GPU sustains: the highest at which its mean power, without wait_s, is within its power
/// limit: the time of work does not become less where it stops for a while. A WorkCost
/// has times measured without a clock lock, so they include the effect of the limit, and f_s / f counts from there.
class WorkEnergy {
 public:
  WorkEnergy(const GpuModel& gpu, const WorkCost& work);
  /// Work whose time was measured under a power limit that is not the GPU's.
  [[nodiscard]] static WorkEnergy measured_under(double limit_w, const GpuModel& gpu, const WorkCost& work);

  /// f_s, or the highest clock if the work stays below the power limit.
  [[nodiscard]] double sustained_clock_mhz() const { return sustained_mhz_; }
  /// The same under another limit, which may be higher: the highest clock at which its mean power is within it, or the
  /// lowest clock if none is.
  [[nodiscard]] double sustained_clock_mhz(double limit_w) const;
  /// With a clock lock.
  [[nodiscard]] TimedEnergy at_clock(double clock_mhz) const;
  /// The energy at a clock, by consumer.
  [[nodiscard]] EnergySplit split_at(double clock_mhz) const;

 private:
  WorkEnergy(const GpuModel& gpu, const WorkCost& work, double sustained_clock_mhz);
  [[nodiscard]] double time_s(double clock_mhz) const;
  [[nodiscard]] EnergySplit split(double clock_mhz, double cycles_s, double time_s) const;
  /// The highest clock at which the work, in the time that it states, draws no more than the limit.
  [[nodiscard]] double clock_of_stated_time_mhz(double limit_w) const;

  const GpuModel* gpu_;
  WorkCost work_;
  double link_j_ = 0;
  double sustained_mhz_ = 0;
};

}  // namespace lowgear::estimator

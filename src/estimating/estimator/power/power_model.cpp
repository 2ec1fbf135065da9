#include "estimating/estimator/power/power_model.h"

#include <algorithm>

namespace lowgear::estimator {
namespace {

double share(double amount, double per_s) { return per_s > 0 ? amount / per_s : 0; }

}  // namespace

EnergySplit& EnergySplit::operator+=(const EnergySplit& other) {
  static_j += other.static_j;
  compute_j += other.compute_j;
  memory_j += other.memory_j;
  link_j += other.link_j;
  waiting_j += other.waiting_j;
  return *this;
}

EnergySplit operator*(double factor, const EnergySplit& energy) {
  return {.static_j = factor * energy.static_j,
          .compute_j = factor * energy.compute_j,
          .memory_j = factor * energy.memory_j,
          .link_j = factor * energy.link_j,
          .waiting_j = factor * energy.waiting_j};
}

WorkEnergy::WorkEnergy(const GpuModel& gpu, const WorkCost& work)
    : WorkEnergy(measured_under(gpu.power.limit_w, gpu, work)) {}

WorkEnergy WorkEnergy::measured_under(double limit_w, const GpuModel& gpu, const WorkCost& work) {
  return {gpu, work, WorkEnergy(gpu, work, gpu.clocks.max_mhz).clock_of_stated_time_mhz(limit_w)};
}

WorkEnergy::WorkEnergy(const GpuModel& gpu, const WorkCost& work, double sustained_clock_mhz)
    : gpu_(&gpu),
      work_(work),
      link_j_(gpu.power.link_w * share(work.link_bytes, gpu.link_bytes_per_s) +
              (gpu.power.blocking_w - gpu.power.static_w) * work.link_s),
      sustained_mhz_(sustained_clock_mhz) {}

/// In a stated time, energy is linear in clock x V^2.
double WorkEnergy::clock_of_stated_time_mhz(double limit_w) const {
  const power::GpuPower& power = gpu_->power;
  const power::ClockSteps& clocks = gpu_->clocks;
  const double time_s = work_.time_s() - work_.wait_s;
  if (!(time_s > 0) || !(limit_w > 0)) return clocks.max_mhz;
  const double always_j = power.static_power_w(0) * time_s + power.memory_w * work_.memory_s + link_j_;
  const double switched_j = power.clock_tree_w * time_s + power.compute_w * work_.core_load * work_.core_s +
                            power.memory_sm_w * work_.memory_s;
  const double left_j = limit_w * time_s - always_j;
  if (left_j >= switched_j) return clocks.max_mhz;
  if (left_j <= 0) return clocks.min_mhz;
  return std::clamp<double>(power.voltage.clock_of_product(left_j / switched_j * clocks.max_mhz), clocks.min_mhz,
                            clocks.max_mhz);
}

double WorkEnergy::time_s(double clock_mhz) const {
  return work_.core_s * std::max(1.0, sustained_mhz_ / clock_mhz) + work_.memory_s + work_.link_s + work_.wait_s;
}

/// `cycles_s`: cycles that the multiprocessors are busy for, in seconds at the highest clock.
EnergySplit WorkEnergy::split(double clock_mhz, double cycles_s, double time_s) const {
  const power::GpuPower& power = gpu_->power;
  const power::Switching switching(power, clock_mhz, gpu_->clocks.max_mhz);
  return {.static_j = power.static_power_w(switching.rate) * time_s,
          .compute_j = power.compute_w * work_.core_load * cycles_s * switching.v2,
          .memory_j = (power.memory_w + power.memory_sm_w * switching.rate) * work_.memory_s,
          .link_j = link_j_,
          .waiting_j = 0};
}

EnergySplit WorkEnergy::split_at(double clock_mhz) const {
  const double runs_mhz = std::min(clock_mhz, sustained_mhz_);
  EnergySplit energy =
      split(runs_mhz, work_.core_s * sustained_mhz_ / gpu_->clocks.max_mhz, time_s(runs_mhz) - work_.wait_s);
  energy.waiting_j = gpu_->power.blocking_w * work_.wait_s;
  return energy;
}

TimedEnergy WorkEnergy::at_clock(double clock_mhz) const {
  return {time_s(std::min(clock_mhz, sustained_mhz_)), split_at(clock_mhz).total_j()};
}

double WorkEnergy::sustained_clock_mhz(double limit_w) const {
  const double cycles_s = work_.core_s * sustained_mhz_ / gpu_->clocks.max_mhz;
  const auto power_w = [&](double clock_mhz) {
    const double time_s = work_.core_s * sustained_mhz_ / clock_mhz + work_.memory_s + work_.link_s;
    return time_s > 0 ? split(clock_mhz, cycles_s, time_s).total_j() / time_s : 0;
  };
  const bool higher = power_w(sustained_mhz_) <= limit_w;
  return power::highest_clock_within(higher ? sustained_mhz_ : gpu_->clocks.min_mhz,
                                     higher ? gpu_->clocks.max_mhz : sustained_mhz_, limit_w, power_w);
}

bool has_own_power_limit(const GpuModel& gpu) {
  return gpu.power.kernel_limit_w > 0 && gpu.power.kernel_limit_w != gpu.power.limit_w;
}

WorkCost under_power_limit(const GpuModel& gpu, const WorkCost& work) {
  if (!has_own_power_limit(gpu) || !(work.time_s() > 0)) return work;
  const double measured_w = gpu.power.kernel_limit_w;
  const double limit_w = gpu.power.limit_w;
  const WorkEnergy measured = WorkEnergy::measured_under(measured_w, gpu, work);
  const double slowdown = measured.sustained_clock_mhz() / measured.sustained_clock_mhz(limit_w);
  WorkCost limited = work;
  // Both clocks are found to within a millionth: that must not make a lower limit faster.
  limited.core_s *= limit_w < measured_w ? std::max(1.0, slowdown) : std::min(1.0, slowdown);
  limited.error_s *= limited.time_s() / work.time_s();
  return limited;
}

}  // namespace lowgear::estimator

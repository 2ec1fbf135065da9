#pragma once

#include <cmath>
#include <map>
#include <random>

#include "planning/profile/energy_regression.h"
#include "planning/profile/recording.h"

namespace lowgear::profile {

/// A training process whose true powers are known: iterations of forwards and backwards with pauses, seen through a
/// counter that advances in steps of 100 ms and is read at about 20 Hz.
struct MadeUpProcess {
  std::map<CellKey, double> power_w;
  double blocking_w = 80;
  std::map<int, double> blocking_by_clock_w;  ///< where waiting depends on the clock of the unit before
  double counter_step_s = 0.1;
  double reading_period_s = 0.05;
  double reading_jitter = 0.1;  ///< relative
  double power_noise = 0;       ///< relative, of every unit
  unsigned seed = 1;

  /// `iterations` at each clock, in the order of the list, of `microbatches` forwards and backwards in 1F1B's steady
  /// state: F B F B. Units take `forward_s` and `backward_s` at 1000 MHz and scale with the clock.
  [[nodiscard]] Recording record(const std::vector<int>& clocks_mhz, int iterations, int microbatches,
                                 double forward_s = 0.05, double backward_s = 0.1) const;
};

namespace made_up {

/// Energy over time as a broken line.
class EnergyLine {
 public:
  void add(double until_s, double power_w) {
    energy_j_ += power_w * (until_s - time_s_);
    time_s_ = until_s;
    points_[time_s_] = energy_j_;
  }
  [[nodiscard]] double time_s() const { return time_s_; }
  [[nodiscard]] double at(double time_s) const {
    const auto right = points_.lower_bound(time_s);
    if (right == points_.end()) return energy_j_;
    if (right == points_.begin()) return right->second;
    const auto left = std::prev(right);
    return left->second + (right->second - left->second) * (time_s - left->first) / (right->first - left->first);
  }

 private:
  double time_s_ = 0;
  double energy_j_ = 0;
  std::map<double, double> points_{{0, 0}};
};

}  // namespace made_up

inline Recording MadeUpProcess::record(const std::vector<int>& clocks_mhz, int iterations, int microbatches,
                                       double forward_s, double backward_s) const {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal;
  Recording recording;
  recording.source = "made up";
  made_up::EnergyLine energy;
  energy.add(0.3, blocking_w);
  int iteration = 0;
  const auto waiting_w = [&](int clock_mhz) {
    const auto found = blocking_by_clock_w.find(clock_mhz);
    return found != blocking_by_clock_w.end() ? found->second : blocking_w;
  };
  int waits_at_mhz = 0;
  for (const int clock_mhz : clocks_mhz) {
    for (int i = 0; i < iterations; ++i, ++iteration) {
      for (int unit = 0; unit < 2 * microbatches; ++unit) {
        const OpKind kind = unit % 2 == 0 ? OpKind::forward : OpKind::backward;
        energy.add(energy.time_s() + 0.02 * uniform(random), waiting_w(waits_at_mhz));
        waits_at_mhz = clock_mhz;
        const double start_s = energy.time_s();
        const double base_s = kind == OpKind::forward ? forward_s : backward_s;
        const double end_s = start_s + base_s * 1000 / clock_mhz * (1 + 0.01 * normal(random));
        energy.add(end_s, power_w.at({0, kind, clock_mhz}) * (1 + power_noise * normal(random)));
        recording.units.push_back({iteration, 0, kind, unit / 2, start_s, end_s, clock_mhz});
      }
      energy.add(energy.time_s() + 0.1, waiting_w(clock_mhz));
    }
  }
  const double phase_s = counter_step_s * uniform(random);
  for (double time_s = 0; time_s < energy.time_s();
       time_s += reading_period_s * (1 - reading_jitter + 2 * reading_jitter * uniform(random))) {
    const double updated_s = std::floor((time_s - phase_s) / counter_step_s) * counter_step_s + phase_s;
    EnergySample sample;
    sample.time_s = time_s;
    sample.energy_j = std::round(1e3 * (1000 + energy.at(updated_s))) / 1e3;  // whole millijoules, as NVML counts
    sample.throttle_reasons = 0;
    recording.samples.push_back(sample);
  }
  return recording;
}

}  // namespace lowgear::profile

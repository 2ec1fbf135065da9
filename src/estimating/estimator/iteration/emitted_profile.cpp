#include "estimating/estimator/iteration/emitted_profile.h"

#include <algorithm>
#include <span>

#include "estimating/estimator/power/power_model.h"

namespace lowgear::estimator {
namespace {

/// What a profile can hold of an op that takes no time at all.
constexpr double kLeastTimeS = 1e-9;
constexpr double kLeastEnergyJ = 1e-9;

void add_rows(profile::StageProfile& profile, int stage, OpKind kind, const WorkEnergy& energy,
              std::span<const int> clocks_mhz) {
  for (const int clock_mhz : clocks_mhz) {
    const TimedEnergy taken = energy.at_clock(clock_mhz);
    profile.add(stage, kind, {clock_mhz, std::max(taken.time_s, kLeastTimeS), std::max(taken.energy_j, kLeastEnergyJ)});
  }
}

}  // namespace

std::vector<int> profiled_clocks_mhz(const ClockSteps& clocks) {
  const int lowest_mhz = std::max(clocks.min_mhz, clocks.max_mhz / 3);
  std::vector<int> clocks_mhz;
  for (int clock_mhz = clocks.max_mhz; clock_mhz >= lowest_mhz; clock_mhz -= clocks.step_mhz) {
    clocks_mhz.push_back(clock_mhz);
  }
  return clocks_mhz;
}

profile::StageProfile emitted_profile(const GpuModel& gpu, const IterationEstimate& estimate) {
  const std::vector<int> clocks_mhz = profiled_clocks_mhz(gpu.clocks);
  profile::StageProfile profile(static_cast<int>(estimate.stages.size()));
  for (int stage = 0; stage < profile.stages(); ++stage) {
    const StageEstimate& costs = estimate.stages[static_cast<std::size_t>(stage)];
    add_rows(profile, stage, OpKind::forward, WorkEnergy(gpu, costs.forward), clocks_mhz);
    const WorkEnergy backward(gpu, costs.backward);
    add_rows(profile, stage, OpKind::backward, backward, clocks_mhz);
    if (!(costs.weight_gradient.time_s() > 0)) continue;
    const auto part = [&](const WorkCost& work) { return WorkEnergy(gpu, work, backward.sustained_clock_mhz()); };
    add_rows(profile, stage, OpKind::weight_gradient, part(costs.weight_gradient), clocks_mhz);
    add_rows(profile, stage, OpKind::input_gradient, part(costs.backward + -1 * costs.weight_gradient), clocks_mhz);
  }
  return profile;
}

}  // namespace lowgear::estimator

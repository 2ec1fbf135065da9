#include "planning/profile/recorded_energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"

namespace lowgear::profile {
namespace {

/// Time over which counter and power readings are compared: long enough for their edges not to count, short enough for
/// a fault in a part of a recording to show.
constexpr double kBlockS = 10;
/// Readings of power that are further apart say nothing of the time between them.
constexpr double kLongestGapS = 2;
/// A power reading may be the mean of the second before it: what a comparison may err by at either end.
constexpr double kAveragedS = 0.5;

/// What counter and power readings say of the same time.
struct Block {
  double time_s = 0;
  double counter_j = 0;
  double power_j = 0;
  double first_w = 0;
  double last_w = 0;

  void add(const EnergySample& from, const EnergySample& to) {
    if (time_s == 0) first_w = *from.power_w;
    last_w = *to.power_w;
    const double step_s = to.time_s - from.time_s;
    time_s += step_s;
    counter_j += *to.energy_j - *from.energy_j;
    power_j += step_s * (*from.power_w + *to.power_w) / 2;
  }
  void add(const Block& other) {
    if (time_s == 0) first_w = other.first_w;
    last_w = other.last_w;
    time_s += other.time_s;
    counter_j += other.counter_j;
    power_j += other.power_j;
  }
  [[nodiscard]] EnergyVerdict verdict(double highest_power_w) const {
    return check_energy({.energy_j = counter_j,
                         .time_s = time_s,
                         .period_s = kLongestStepS,
                         .highest_power_w = highest_power_w,
                         .readings = IntegratedPower{power_j, kAveragedS * std::abs(last_w - first_w)}});
  }
};

/// Stretches of kBlockS and more in which both are known.
std::vector<Block> blocks_of(const std::vector<EnergySample>& samples) {
  std::vector<Block> blocks;
  Block block;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const EnergySample& from = samples[i - 1];
    const EnergySample& to = samples[i];
    const bool is_known = from.energy_j && to.energy_j && from.power_w && to.power_w;
    if (!is_known || to.time_s - from.time_s > kLongestGapS) continue;
    block.add(from, to);
    if (block.time_s < kBlockS) continue;
    blocks.push_back(block);
    block = {};
  }
  if (block.time_s == 0) return blocks;
  // A short rest belongs to the block before it.
  if (blocks.empty()) blocks.emplace_back();
  blocks.back().add(block);
  return blocks;
}

/// The first step of the counter that no GPU can have drawn.
std::optional<std::string> impossible_step(const Recording& recording, double highest_power_w) {
  const EnergySample* before = nullptr;
  for (const EnergySample& sample : recording.samples) {
    if (!sample.energy_j) continue;
    if (before != nullptr && *sample.energy_j > *before->energy_j) {
      const EnergyVerdict verdict = check_energy({.energy_j = *sample.energy_j - *before->energy_j,
                                                  .time_s = sample.time_s - before->time_s,
                                                  .period_s = kLongestStepS,
                                                  .highest_power_w = highest_power_w});
      if (!verdict.usable()) return fmt::format("{}, at {:.3f} s", verdict.reason, before->time_s);
    }
    before = &sample;
  }
  return std::nullopt;
}

bool has_power(const Recording& recording) {
  return std::ranges::count_if(recording.samples,
                               [](const EnergySample& sample) { return sample.power_w.has_value(); }) > 1;
}

/// Why the counter is not used; empty: it is.
std::optional<std::string> counter_fault(Recording& recording, double highest_power_w) {
  if (auto step = impossible_step(recording, highest_power_w)) return step;
  Block whole;
  std::optional<std::string> faulty_block;
  for (const Block& block : blocks_of(recording.samples)) {
    whole.add(block);
    const EnergyVerdict verdict = block.verdict(highest_power_w);
    if (!verdict.usable() && !faulty_block) faulty_block = verdict.reason;
  }
  if (whole.time_s == 0) return std::nullopt;
  const EnergyVerdict verdict = whole.verdict(highest_power_w);
  if (!verdict.usable()) return verdict.reason;
  if (faulty_block) return faulty_block;
  if (verdict.fault == EnergyFault::differs) {
    recording.warnings.push_back(
        fmt::format("{}/energy.csv: the energy counter {}; the counter is used", recording.source, verdict.reason));
  }
  return std::nullopt;
}

/// The counter's values, made of the power readings.
void integrate_power(Recording& recording) {
  double energy_j = 0;
  const EnergySample* before = nullptr;
  for (EnergySample& sample : recording.samples) {
    sample.energy_j.reset();
    if (!sample.power_w) continue;
    if (before != nullptr) energy_j += (sample.time_s - before->time_s) * (*before->power_w + *sample.power_w) / 2;
    sample.energy_j = energy_j;
    before = &sample;
  }
  recording.energy_from_power = true;
}

}  // namespace

void settle_energy(Recording& recording) {
  const double highest_power_w = highest_gpu_power_w(recording.power_limit_w);
  const std::optional<std::string> fault = counter_fault(recording, highest_power_w);
  if (!fault) return;
  const std::string what = "the energy counter " + *fault;
  const SourceLocation where{recording.source + "/energy.csv", 0, 0};
  if (!has_power(recording)) throw_input_error(where, what, "record again, with power readings (power_w)");
  recording.warnings.push_back(fmt::format("{}: {}; its energies are integrated power readings, known to {:.0f} %",
                                           where.source, what, 100 * kIntegratedPowerError));
  integrate_power(recording);
}

}  // namespace lowgear::profile

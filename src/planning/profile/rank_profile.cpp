#include "planning/profile/rank_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/core/error.h"
#include "base/core/numbers/median.h"

namespace lowgear::profile {
namespace {

/// NVML: software power cap, hardware slowdown, software and hardware thermal slowdown, hardware power brake.
constexpr std::uint64_t kThrottleBits = 0x04 | 0x08 | 0x20 | 0x40 | 0x80;

/// Share of a window's energy that the powers may leave unexplained.
constexpr double kLargestResidual = 0.15;
/// Stretches of a recording in which its energies may be shifted against its units by different times, as clocks of
/// different speeds are, and the samples around each that belong to it.
constexpr int kStretchesOfShift = 8;
constexpr double kAroundStretchS = 2;
/// What stands for a unit that is too short to measure: the same at every clock and in every recording, so that no
/// clock seems better than another one.
constexpr double kEmptyUnitS = 1e-6;
constexpr CellPower kEmptyUnitPower{.power_w = 1, .error_w = 0, .is_identified = true};

/// How long a time the power readings of GPUs are means of: 25 ms to 1 s (arXiv 2312.02741).
constexpr auto kPowerMeansS = std::to_array({0.025, 0.05, 0.1, 0.2, 0.5, 1.0});

using StageKind = std::pair<int, OpKind>;

/// The halves of split backwards that take no time that can be measured, by the median over all clocks: PyTorch
/// computes no input gradient on the first stage, and what is not computed has no clock either.
std::set<StageKind> empty_kinds(std::span<const Recording> parts) {
  std::map<StageKind, std::vector<double>> times_s;
  for (const Recording& part : parts) {
    for (const RecordedUnit& unit : part.units) {
      if (unit.settling || !is_half_of_a_backward(unit.kind)) continue;
      times_s[{unit.stage, unit.kind}].push_back(unit.end_s - unit.start_s);
    }
  }
  std::set<StageKind> empty;
  for (auto& [key, values] : times_s) {
    if (upper_median(std::span(values)) < kShortestUnitS) empty.insert(key);
  }
  return empty;
}

Recording without_warm_up(const Recording& recording, int skipped_iterations) {
  Recording kept = recording;
  int first = kMaxIteration;
  for (const RecordedUnit& unit : recording.units) {
    if (unit.iteration >= 0) first = std::min(first, unit.iteration);
  }
  std::erase_if(kept.units, [&](const RecordedUnit& unit) {
    return unit.iteration < 0 || unit.iteration - first < skipped_iterations;
  });
  return kept;
}

/// A GPU that runs at the requested clock is not held back, although a driver may still name the reason of the unit
/// before. Its clock counts as reached from this share on.
constexpr double kReachedClock = 0.99;

void count_samples(const Recording& recording, std::map<CellKey, RankCell>& cells) {
  std::size_t next = 0;
  for (const EnergySample& sample : recording.samples) {
    if (!sample.throttle_reasons && !sample.sm_mhz) continue;
    while (next < recording.units.size() && recording.units[next].end_s <= sample.time_s) ++next;
    if (next == recording.units.size()) break;
    const RecordedUnit& unit = recording.units[next];
    if (sample.time_s < unit.start_s || unit.settling) continue;
    RankCell& cell = cells[{unit.stage, unit.kind, unit.clock_mhz}];
    if (sample.sm_mhz) {
      ++cell.clock.reported;
      cell.clock.sum_mhz += *sample.sm_mhz;
    }
    if (!sample.throttle_reasons) continue;
    ++cell.throttle.reported;
    const bool is_slow = !sample.sm_mhz || unit.clock_mhz == 0 || *sample.sm_mhz < kReachedClock * unit.clock_mhz;
    if (is_slow && (*sample.throttle_reasons & kThrottleBits) != 0) ++cell.throttle.throttled;
  }
}

void label_units(std::span<Recording> parts, int own_clock_mhz) {
  for (Recording& part : parts) {
    for (RecordedUnit& unit : part.units) {
      if (unit.clock_mhz == 0) unit.clock_mhz = own_clock_mhz;
    }
  }
}

struct FittedEnergy {
  std::vector<CellKey> cells;
  EnergyRegression regression;
  double residual = 0;  ///< as a share of a window's mean energy
};

FittedEnergy fit(std::span<const Recording> parts, const ProfilingOptions& options) {
  EnergyWindows windows = energy_windows(parts);
  try {
    EnergyRegression regression = fit_energy(windows, options.blocking_w);
    double energy_j = 0;
    for (const EnergyWindow& window : windows.windows) energy_j += window.energy_j;
    const double residual = regression.residual_j * static_cast<double>(windows.windows.size()) / energy_j;
    return {std::move(windows.cells), std::move(regression), residual};
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", parts.front().source, error.what()));
  }
}

/// GPUs differ in how long a time a power reading is the mean of: the one that explains the readings best.
FittedEnergy fit_power_readings(std::span<Recording> parts, const ProfilingOptions& options) {
  std::optional<FittedEnergy> best;
  double best_mean_s = 0;
  for (const double mean_s : kPowerMeansS) {
    for (Recording& part : parts) part.power_mean_s = mean_s;
    try {
      FittedEnergy fitted = fit(parts, options);
      if (best && fitted.residual >= best->residual) continue;
      best = std::move(fitted);
      best_mean_s = mean_s;
    } catch (const InputError&) {
      if (!best) throw;  // the shortest has the most windows
    }
  }
  for (Recording& part : parts) part.power_mean_s = best_mean_s;
  return std::move(*best);
}

/// A stretch of a recording: units that begin in it, and the samples around them.
Recording stretch_of(const Recording& recording, double begin_s, double end_s) {
  Recording stretch;
  stretch.source = recording.source;
  stretch.sampling = recording.sampling;
  stretch.energy_from_power = recording.energy_from_power;
  stretch.power_mean_s = recording.power_mean_s;
  stretch.set_aside = recording.set_aside;
  stretch.energy_shift_s = recording.energy_shift_s;
  const auto first = std::ranges::lower_bound(recording.units, begin_s, {}, &RecordedUnit::start_s);
  stretch.units.assign(first, std::ranges::lower_bound(recording.units, end_s, {}, &RecordedUnit::start_s));
  const auto sample = [&](double time_s) {
    return std::ranges::lower_bound(recording.samples, time_s, {}, &EnergySample::time_s);
  };
  stretch.samples.assign(sample(begin_s - kAroundStretchS), sample(end_s + kAroundStretchS));
  return stretch;
}

/// The recording with its energies on the clock of its units: as a whole, or in stretches where that changes.
std::vector<Recording> shifted(const Recording& part, const ProfilingOptions& options,
                               std::vector<std::string>& warnings) {
  Recording whole = part;
  whole.energy_shift_s = find_energy_shift_s(whole, options.blocking_w);
  std::vector<Recording> stretches;
  double least_s = whole.energy_shift_s;
  double most_s = whole.energy_shift_s;
  if (!part.units.empty()) {
    const double begin_s = part.units.front().start_s;
    const double length_s = (part.units.back().end_s - begin_s) / kStretchesOfShift;
    for (int i = 0; i < kStretchesOfShift; ++i) {
      stretches.push_back(stretch_of(whole, begin_s + i * length_s, begin_s + (i + 1) * length_s));
      Recording& stretch = stretches.back();
      stretch.energy_shift_s = find_energy_shift_s(stretch, options.blocking_w);
      least_s = std::min(least_s, stretch.energy_shift_s);
      most_s = std::max(most_s, stretch.energy_shift_s);
    }
  }
  if (least_s == 0 && most_s == 0) return {std::move(whole)};
  warnings.push_back(fmt::format(
      "{}: its energies fit its units much better when they are shifted by {:.2f} s{}; the clocks behind units.csv and "
      "energy.csv differ, so the energies are shifted",
      part.source, least_s, least_s == most_s ? "" : fmt::format(" to {:.2f} s over the recording", most_s)));
  return least_s == most_s ? std::vector{std::move(whole)} : std::move(stretches);
}

/// Puts energies of another clock than the units' on that of the units.
FittedEnergy fit_shifted(std::vector<Recording> parts, const ProfilingOptions& options,
                         std::vector<std::string>& warnings) {
  const auto fit_parts = [&](std::span<Recording> all) {
    return std::ranges::any_of(all, &Recording::energy_from_power) ? fit_power_readings(all, options)
                                                                   : fit(all, options);
  };
  FittedEnergy fitted = fit_parts(parts);
  std::vector<Recording> on_one_clock;
  bool is_shifted = false;
  for (const Recording& part : parts) {
    for (Recording& stretch : shifted(part, options, warnings)) {
      is_shifted = is_shifted || stretch.energy_shift_s != 0;
      on_one_clock.push_back(std::move(stretch));
    }
  }
  if (is_shifted) fitted = fit_parts(on_one_clock);
  if (fitted.residual > kLargestResidual) {
    warnings.push_back(
        fmt::format("{}: its units explain its energies badly ({:.0f} % of a window's energy is left); they may come "
                    "from different times",
                    parts.front().source, 100 * fitted.residual));
  }
  return fitted;
}

}  // namespace

bool is_half_of_a_backward(OpKind kind) { return kind == OpKind::input_gradient || kind == OpKind::weight_gradient; }

std::vector<Recording> without_warm_up(std::span<const Recording> parts, int skipped_iterations) {
  std::vector<Recording> kept;
  for (const Recording& part : parts) {
    kept.push_back(without_warm_up(part, skipped_iterations));
    if (std::ranges::all_of(kept.back().units, &RecordedUnit::settling)) kept.pop_back();
  }
  if (kept.empty()) {
    throw InputError(
        fmt::format("{}: no units are left after the first {} iterations and those in which clocks settled; record "
                    "more, or skip fewer",
                    parts.front().source, skipped_iterations));
  }
  return kept;
}

RankProfile profile_rank(std::vector<Recording> parts, const ProfilingOptions& options,
                         std::vector<std::string>& warnings) {
  RankProfile profile;
  if (options.own_clock_mhz) label_units(parts, *options.own_clock_mhz);
  const std::set<StageKind> empty = empty_kinds(parts);
  for (Recording& part : parts) {
    for (const RecordedUnit& unit : part.units) {
      if (unit.settling) continue;
      const bool is_empty = empty.contains({unit.stage, unit.kind});
      const double time_s = is_empty ? kEmptyUnitS : (unit.end_s - unit.start_s) / unit.work;
      profile.cells[{unit.stage, unit.kind, unit.clock_mhz}].times_s.add(time_s);
      profile.stages.insert(unit.stage);
    }
    count_samples(part, profile.cells);
    std::erase_if(part.units, [&](const RecordedUnit& unit) { return empty.contains({unit.stage, unit.kind}); });
  }
  for (const Recording& part : parts) {
    profile.energy_error_share = std::max(profile.energy_error_share, part.energy_error_share);
  }
  const FittedEnergy fitted = fit_shifted(std::move(parts), options, warnings);
  for (std::size_t i = 0; i < fitted.cells.size(); ++i) {
    profile.cells[fitted.cells[i]].power = fitted.regression.cells[i];
  }
  profile.blocking = fitted.regression.blocking;
  profile.blocking_by_clock = fitted.regression.blocking_by_clock;
  for (auto& [key, cell] : profile.cells) {
    if (empty.contains({key.stage, key.kind})) cell.power = kEmptyUnitPower;
  }
  return profile;
}

}  // namespace lowgear::profile

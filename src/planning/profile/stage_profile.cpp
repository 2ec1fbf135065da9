#include "planning/profile/stage_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "base/core/units.h"
#include "planning/profile/row_check.h"

namespace lowgear::profile {
namespace {

std::string describe(int stage, OpKind kind) { return fmt::format("stage {} {}", stage, name(kind)); }

std::optional<std::string> problem_with_clock(long long clock_mhz) {
  if (clock_mhz >= 1 && clock_mhz <= kMaxClockMhz) return std::nullopt;
  return fmt::format("frequency {} MHz is not in 1 to {}", clock_mhz, kMaxClockMhz);
}

/// The order in which a profile holds the rows of a (stage, kind).
bool is_before(const Measurement& a, const Measurement& b) {
  return std::tie(b.clock_mhz, a.time_s, a.energy_j, a.setting) <
         std::tie(a.clock_mhz, b.time_s, b.energy_j, b.setting);
}

/// The first row of a clock, or of the next lower one.
auto begin_of(std::span<const Measurement> measurements, int clock_mhz) {
  return std::partition_point(measurements.begin(), measurements.end(),
                              [&](const Measurement& row) { return row.clock_mhz > clock_mhz; });
}

/// The rows of one clock.
std::span<const Measurement> rows_at(std::span<const Measurement> measurements, int clock_mhz) {
  const auto begin = begin_of(measurements, clock_mhz);
  const auto end = std::partition_point(begin, measurements.end(),
                                        [&](const Measurement& row) { return row.clock_mhz == clock_mhz; });
  return {begin, end};
}

/// ` with setting sm6`, or nothing.
std::string with_setting(std::string_view setting) {
  return setting.empty() ? "" : fmt::format(" with setting {}", setting);
}

std::string list_clocks(std::span<const Measurement> measurements) {
  if (measurements.empty()) return "none";
  std::vector<int> clocks_mhz;
  for (const Measurement& measurement : measurements) {
    if (clocks_mhz.empty() || clocks_mhz.back() != measurement.clock_mhz) clocks_mhz.push_back(measurement.clock_mhz);
  }
  return fmt::format("{}", fmt::join(clocks_mhz, ", "));
}

}  // namespace

StageProfile::StageProfile(int stages) {
  if (stages < 0 || stages > kMaxStages) {
    throw InputError(fmt::format("a profile cannot have {} stages; give 0 to {}", stages, kMaxStages));
  }
  cells_.resize(static_cast<std::size_t>(stages));
}

bool StageProfile::has(int stage, OpKind kind) const { return !measurements(stage, kind).empty(); }

std::span<const Measurement> StageProfile::measurements(int stage, OpKind kind) const {
  if (stage < 0 || stage >= stages()) return {};
  return cells_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(kind)];
}

std::vector<StageOp> StageProfile::ops() const {
  std::vector<StageOp> ops;
  for (int stage = 0; stage < stages(); ++stage) {
    for (const OpKind kind : kScheduledKinds) {
      const auto rows = measurements(stage, kind);
      if (!rows.empty()) ops.push_back({stage, kind, rows});
    }
  }
  return ops;
}

const Measurement& StageProfile::at_max_clock(int stage, OpKind kind) const {
  const std::span<const Measurement> found = measurements(stage, kind);
  if (found.empty()) throw InputError(fmt::format("the profile has no measurement of {}", describe(stage, kind)));
  return found.front();
}

const Measurement& StageProfile::at_clock(int stage, OpKind kind, int clock_mhz) const {
  const std::span<const Measurement> found = measurements(stage, kind);
  const auto at = begin_of(found, clock_mhz);
  if (at == found.end() || at->clock_mhz != clock_mhz) {
    throw InputError(fmt::format("the profile has no measurement of {} at {} MHz; its clocks are {}",
                                 describe(stage, kind), clock_mhz, list_clocks(found)));
  }
  return *at;
}

const Measurement* StageProfile::find(int stage, OpKind kind, int clock_mhz, std::string_view setting) const {
  const std::span<const Measurement> rows = rows_at(measurements(stage, kind), clock_mhz);
  const auto found = std::ranges::find(rows, setting, &Measurement::setting);
  return found == rows.end() ? nullptr : &*found;
}

const Measurement& StageProfile::at_setting(int stage, OpKind kind, int clock_mhz, std::string_view setting) const {
  if (const Measurement* const found = find(stage, kind, clock_mhz, setting)) return *found;
  (void)at_clock(stage, kind, clock_mhz);  // says which clocks there are
  throw InputError(fmt::format("the profile has no measurement of {} at {} MHz{}", describe(stage, kind), clock_mhz,
                               setting.empty() ? " without a setting" : with_setting(setting)));
}

void StageProfile::add(int stage, OpKind kind, Measurement measurement) {
  if (stage < 0 || stage >= stages()) {
    throw InputError(fmt::format("stage {} is not one of the profile's {} stages", stage, stages()));
  }
  for (const auto& problem : {problem_with_clock(measurement.clock_mhz), problem_with_time(measurement.time_s),
                              problem_with_energy(measurement.energy_j), problem_with_setting(measurement.setting)}) {
    if (problem) throw InputError(fmt::format("{}: {}", describe(stage, kind), *problem));
  }
  auto& cell = cells_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(kind)];
  if (find(stage, kind, measurement.clock_mhz, measurement.setting) != nullptr) {
    throw InputError(fmt::format("{} occurs twice at {} MHz{}", describe(stage, kind), measurement.clock_mhz,
                                 with_setting(measurement.setting)));
  }
  if (rows_at(cell, measurement.clock_mhz).size() >= kMaxSettings) {
    throw InputError(
        fmt::format("{} has more than {} settings at {} MHz; keep those that no other one beats in time and energy",
                    describe(stage, kind), kMaxSettings, measurement.clock_mhz));
  }
  has_settings_ = has_settings_ || !measurement.setting.empty();
  const auto at = std::lower_bound(cell.begin(), cell.end(), measurement, is_before);
  cell.insert(at, std::move(measurement));
}

StageProfile with_split_backward(const StageProfile& profile, double fraction) {
  if (!(fraction > 0 && fraction < 1)) {
    throw InputError(
        fmt::format("the input gradient's fraction of the backward pass is {}; it must lie between 0 and 1", fraction));
  }
  StageProfile split = profile;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    if (profile.has(stage, OpKind::input_gradient) || profile.has(stage, OpKind::weight_gradient)) continue;
    for (const auto& [clock_mhz, time_s, energy_j, setting, line] : profile.measurements(stage, OpKind::backward)) {
      const Measurement input{clock_mhz, time_s * fraction, energy_j * fraction, setting};
      split.add(stage, OpKind::input_gradient, input);
      split.add(stage, OpKind::weight_gradient, {clock_mhz, time_s - input.time_s, energy_j - input.energy_j, setting});
    }
  }
  return split;
}

StageProfile with_recomputation(const StageProfile& profile, std::optional<double> share) {
  if (share && !(*share > 0 && *share <= kMostRecomputation)) {
    throw InputError(fmt::format("a recomputation takes {} of the forward's time; it must be above 0 and at most {}",
                                 *share, kMostRecomputation));
  }
  StageProfile result = profile;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    if (share && !profile.has(stage, OpKind::recomputation)) {
      for (const auto& [clock_mhz, time_s, energy_j, setting, line] : profile.measurements(stage, OpKind::forward)) {
        result.add(stage, OpKind::recomputation, {clock_mhz, time_s * *share, energy_j * *share, setting});
      }
    }
    if (profile.has(stage, OpKind::recomputing_backward)) continue;
    for (const auto& [clock_mhz, time_s, energy_j, setting, line] : profile.measurements(stage, OpKind::backward)) {
      const Measurement* const repeated = result.find(stage, OpKind::recomputation, clock_mhz, setting);
      if (repeated == nullptr) continue;
      result.add(stage, OpKind::recomputing_backward,
                 {clock_mhz, time_s + repeated->time_s, energy_j + repeated->energy_j, setting});
    }
  }
  return result;
}

StageProfile at_fastest_settings(const StageProfile& profile) {
  StageProfile result(profile.stages());
  for (const StageOp& op : profile.ops()) {
    int last_mhz = 0;
    for (const Measurement& row : op.measurements) {
      if (row.clock_mhz != last_mhz) result.add(op.stage, op.kind, row);
      last_mhz = row.clock_mhz;
    }
  }
  return result;
}

void refuse_settings(const StageProfile& profile, std::string_view who) {
  if (!profile.has_settings()) return;
  throw InputError(fmt::format(
      "{} works on clocks alone, and the profile has settings: give a profile with one row for each clock and without "
      "the column setting",
      who));
}

StageProfile with_stages_on_ranks(const StageProfile& profile, std::span<const int> rank_of_stage) {
  std::vector<int> parts(static_cast<std::size_t>(profile.stages()));
  for (const int rank : rank_of_stage) {
    if (rank < 0 || rank >= profile.stages()) {
      throw InputError(
          fmt::format("a virtual stage is on rank {}, but the profile has {} stages", rank, profile.stages()));
    }
    ++parts[static_cast<std::size_t>(rank)];
  }
  if (rank_of_stage.size() > static_cast<std::size_t>(kMaxStages)) {
    throw InputError(fmt::format("{} virtual stages; at most {} are supported", rank_of_stage.size(), kMaxStages));
  }
  StageProfile virtual_profile(static_cast<int>(rank_of_stage.size()));
  for (int stage = 0; stage < virtual_profile.stages(); ++stage) {
    const int rank = rank_of_stage[static_cast<std::size_t>(stage)];
    const int chunks = parts[static_cast<std::size_t>(rank)];
    for (const OpKind kind : kScheduledKinds) {
      for (Measurement part : profile.measurements(rank, kind)) {
        part.time_s /= chunks;
        part.energy_j /= chunks;
        virtual_profile.add(stage, kind, std::move(part));
      }
    }
  }
  return virtual_profile;
}

int forward_only_stages(const StageProfile& profile) {
  int stage = 0;
  while (stage < profile.stages() && !profile.has(stage, OpKind::backward) &&
         !profile.has(stage, OpKind::input_gradient) && !profile.has(stage, OpKind::weight_gradient)) {
    ++stage;
  }
  return stage < profile.stages() ? stage : 0;
}

}  // namespace lowgear::profile

#include "planning/profile/layers/layer_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>

#include "base/core/error.h"
#include "base/core/numbers/even_division.h"

namespace lowgear::profile {
namespace {

constexpr std::array kKinds = {OpKind::forward, OpKind::backward, OpKind::input_gradient, OpKind::weight_gradient};

/// Costs of an end, relative to its stage, that are noise.
constexpr double kNoise = 1e-3;

const Measurement* find_clock(std::span<const Measurement> rows, int clock_mhz) {
  const auto found = std::ranges::find(rows, clock_mhz, &Measurement::clock_mhz);
  return found == rows.end() ? nullptr : &*found;
}

bool has_gradient(const StageProfile& profile, int stage) {
  return profile.has(stage, OpKind::backward) || profile.has(stage, OpKind::input_gradient) ||
         profile.has(stage, OpKind::weight_gradient);
}

/// All that have a backward must have the same kinds of it: else a sum over some would be taken for one over all.
void require_same_kinds(const StageProfile& profile, std::string_view what) {
  int first = 0;
  while (first < profile.stages() && !has_gradient(profile, first)) ++first;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    if (!profile.has(stage, OpKind::forward)) {
      throw InputError(fmt::format("{} {} has no forward; measure it", what, stage));
    }
    for (const OpKind kind : kKinds) {
      if (stage < first || kind == OpKind::forward || profile.has(stage, kind) == profile.has(first, kind)) continue;
      throw InputError(fmt::format("{0} {1} and {0} {2} differ in whether they have {3}; measure all of them alike",
                                   what, first, stage, name(kind)));
    }
  }
}

/// The stages whose layers say what a layer costs; none where nothing but the ends is there.
std::vector<int> reference_stages(int stages, int end) {
  std::vector<int> reference;
  for (int stage = 1; stage + 1 < stages; ++stage) reference.push_back(stage);
  if (reference.empty() && stages == 2 && end == 1) reference.push_back(0);
  return reference;
}

/// Mean cost of a layer of these stages; empty where one of them lacks the clock.
std::optional<Measurement> mean_layer(const StageProfile& stages, const Partition& partition,
                                      std::span<const int> reference, OpKind kind, int clock_mhz) {
  Measurement sum{clock_mhz, 0, 0};
  double layers = 0;
  for (const int stage : reference) {
    const Measurement* row = find_clock(stages.measurements(stage, kind), clock_mhz);
    if (row == nullptr) return std::nullopt;
    sum.time_s += row->time_s;
    sum.energy_j += row->energy_j;
    layers += partition[static_cast<std::size_t>(stage)];
  }
  if (layers == 0) return std::nullopt;
  return Measurement{clock_mhz, sum.time_s / layers, sum.energy_j / layers};
}

/// Costs of a stage at an end beyond its layers, by clock; empty if they are negligible.
std::vector<Measurement> end_costs(const StageProfile& stages, const Partition& partition, int end, OpKind kind) {
  const int stage = end == 0 ? 0 : stages.stages() - 1;
  const std::vector<int> reference = reference_stages(stages.stages(), end);
  std::vector<Measurement> costs;
  for (const Measurement& row : stages.measurements(stage, kind)) {
    const auto layer = mean_layer(stages, partition, reference, kind, row.clock_mhz);
    if (!layer) return {};
    const double layers = partition[static_cast<std::size_t>(stage)];
    const Measurement cost{row.clock_mhz, row.time_s - layers * layer->time_s, row.energy_j - layers * layer->energy_j};
    if (cost.time_s <= kNoise * row.time_s || cost.energy_j <= kNoise * row.energy_j) return {};
    costs.push_back(cost);
  }
  return costs;
}

/// The parts of a stage that have the kind: layers [begin, end), and what the stage has besides.
using Parts = std::vector<std::span<const Measurement>>;

Parts parts_of_stage(const LayerProfile& profile, int begin, int end, OpKind kind) {
  Parts parts;
  const auto add = [&](const StageProfile& from, int place) {
    if (from.has(place, kind)) parts.push_back(from.measurements(place, kind));
  };
  if (begin == 0) add(profile.ends, 0);
  for (int layer = begin; layer < end; ++layer) add(profile.layers, layer);
  if (end == profile.layers.stages()) add(profile.ends, 1);
  return parts;
}

/// Their sum at a clock; empty where one of them lacks it.
std::optional<Measurement> sum_at(const Parts& parts, int clock_mhz) {
  Measurement sum{clock_mhz, 0, 0};
  for (const auto& rows : parts) {
    const Measurement* row = find_clock(rows, clock_mhz);
    if (row == nullptr) return std::nullopt;
    sum.time_s += row->time_s;
    sum.energy_j += row->energy_j;
  }
  return sum;
}

double fastest_s(const StageProfile& profile, int place) {
  double total_s = 0;
  for (const OpKind kind : kKinds) {
    // Measured whole and split, it runs one way: the split costs are those of the whole.
    if (kind == OpKind::backward && profile.has(place, OpKind::input_gradient)) continue;
    const auto rows = profile.measurements(place, kind);
    if (!rows.empty()) total_s += std::ranges::min(rows, {}, &Measurement::time_s).time_s;
  }
  return total_s;
}

}  // namespace

int layer_count(const Partition& partition) {
  int layers = 0;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    if (partition[stage] < 1 || partition[stage] > kMaxStages - layers) {
      throw InputError(
          fmt::format("stage {} of the partition has {} layers; give every stage at least 1, and all "
                      "together at most {}",
                      stage, partition[stage], kMaxStages));
    }
    layers += partition[stage];
  }
  return layers;
}

Partition uniform_partition(int layers, int stages) {
  if (stages < 1 || layers < stages || layers > kMaxStages) {
    throw InputError(
        fmt::format("{} layers cannot be divided over {} stages; give every stage at least 1", layers, stages));
  }
  Partition partition(static_cast<std::size_t>(stages), layers / stages);
  for (int stage = 0; stage < layers % stages; ++stage) ++partition[static_cast<std::size_t>(stage)];
  return partition;
}

LayerProfile layer_profile_of(const StageProfile& stages, const Partition& partition) {
  refuse_settings(stages, "moving layers between stages");
  if (static_cast<std::size_t>(stages.stages()) != partition.size()) {
    throw InputError(fmt::format("the partition has {} stages and the profile {}; give the layers of every stage",
                                 partition.size(), stages.stages()));
  }
  require_same_kinds(stages, "stage");
  if (stages.stages() > 0 && !has_gradient(stages, 0)) {
    throw InputError(
        "stage 0 has no backward: the profile is of work that is frozen already; use the profile from "
        "before, and state everything that is frozen");
  }
  LayerProfile result{.layers = StageProfile(layer_count(partition)), .ends = StageProfile(2)};
  std::vector<int> first_layer;
  int layers = 0;
  for (const int count : partition) {
    first_layer.push_back(layers);
    layers += count;
  }
  for (const auto& [stage, kind, rows] : stages.ops()) {
    std::vector<Measurement> end;
    for (const int place : {0, 1}) {
      if (stage != (place == 0 ? 0 : stages.stages() - 1) || !end.empty()) continue;
      end = end_costs(stages, partition, place, kind);
      for (const Measurement& row : end) result.ends.add(place, kind, row);
    }
    const int count = partition[static_cast<std::size_t>(stage)];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double extra_s = end.empty() ? 0 : end[i].time_s;
      const double extra_j = end.empty() ? 0 : end[i].energy_j;
      const Measurement share{rows[i].clock_mhz, (rows[i].time_s - extra_s) / count,
                              (rows[i].energy_j - extra_j) / count};
      for (int layer = 0; layer < count; ++layer) {
        result.layers.add(first_layer[static_cast<std::size_t>(stage)] + layer, kind, share);
      }
    }
  }
  return result;
}

StageProfile stage_profile_of(const LayerProfile& profile, const Partition& partition) {
  if (layer_count(partition) != profile.layers.stages()) {
    throw InputError(
        fmt::format("the partition has {} layers and the model {}", layer_count(partition), profile.layers.stages()));
  }
  require_same_kinds(profile.layers, "layer");
  StageProfile result(static_cast<int>(partition.size()));
  int begin = 0;
  for (int stage = 0; stage < result.stages(); ++stage) {
    const int end = begin + partition[static_cast<std::size_t>(stage)];
    for (const OpKind kind : kKinds) {
      const Parts parts = parts_of_stage(profile, begin, end, kind);
      if (parts.empty()) continue;
      for (const Measurement& row : parts.front()) {
        if (const auto sum = sum_at(parts, row.clock_mhz)) result.add(stage, kind, *sum);
      }
      if (!result.has(stage, kind)) {
        throw InputError(
            fmt::format("layers {} to {} have no clock in common at which {} was measured; measure all "
                        "stages at the same clocks",
                        begin, end - 1, name(kind)));
      }
    }
    begin = end;
  }
  return result;
}

std::string write_layer_profile(const LayerProfile& profile) {
  std::string text = "layer,instruction,frequency,time,energy\n";
  const auto add = [&text](const StageOp& op, std::string_view layer) {
    for (const Measurement& row : op.measurements) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{}\n", layer, name(op.kind), row.clock_mhz, row.time_s,
                     row.energy_j);
    }
  };
  for (const StageOp& op : profile.layers.ops()) add(op, fmt::to_string(op.stage));
  for (const StageOp& op : profile.ends.ops()) add(op, op.stage == 0 ? "first" : "last");
  return text;
}

Partition balanced_partition(const LayerProfile& profile, int stages) {
  SequenceCosts costs{.first = fastest_s(profile.ends, 0), .elements = {}, .last = fastest_s(profile.ends, 1)};
  for (int layer = 0; layer < profile.layers.stages(); ++layer) {
    costs.elements.push_back(fastest_s(profile.layers, layer));
  }
  if (stages < 1 || profile.layers.stages() < stages) (void)uniform_partition(profile.layers.stages(), stages);
  const std::vector<std::int64_t> boundaries = divide_evenly(costs, stages);
  Partition partition;
  for (std::size_t stage = 0; stage + 1 < boundaries.size(); ++stage) {
    partition.push_back(static_cast<int>(boundaries[stage + 1] - boundaries[stage]));
  }
  return partition;
}

}  // namespace lowgear::profile

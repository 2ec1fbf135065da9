#include "planning/workflow/work_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/core/error.h"

namespace lowgear::workflow {
namespace {

using profile::Measurement;
using profile::StageOp;
using profile::StageProfile;

void check(const profile::LayerProfile& profile, const WorkChange& change) {
  const int layers = profile.layers.stages();
  if (change.frozen_layers < 0 || change.frozen_layers >= layers) {
    throw InputError(fmt::format("{} of {} layers frozen: freeze 0 to {}, at least the last layer has to train",
                                 change.frozen_layers, layers, layers - 1));
  }
  for (const LayerScale& scale : change.scales) {
    if (scale.begin < 0 || scale.end <= scale.begin || scale.end > layers) {
      throw InputError(
          fmt::format("scaled layers {} to {}: the model has layers 0 to {}", scale.begin, scale.end - 1, layers - 1));
    }
    for (const double factor : {scale.time_factor, scale.energy_factor}) {
      if (factor >= 1 / kMaxWorkFactor && factor <= kMaxWorkFactor) continue;
      throw InputError(fmt::format("layers {} to {} scaled by {}: give a factor from {} to {}", scale.begin,
                                   scale.end - 1, factor, 1 / kMaxWorkFactor, kMaxWorkFactor));
    }
  }
}

StageProfile scaled(const StageProfile& layers, const std::vector<LayerScale>& scales) {
  StageProfile result(layers.stages());
  for (const auto& [layer, kind, rows] : layers.ops()) {
    double time_factor = 1;
    double energy_factor = 1;
    for (const LayerScale& scale : scales) {
      if (layer < scale.begin || layer >= scale.end || scale.kind.value_or(kind) != kind) continue;
      time_factor *= scale.time_factor;
      energy_factor *= scale.energy_factor;
    }
    for (const Measurement& row : rows) {
      result.add(layer, kind, {row.clock_mhz, row.time_s * time_factor, row.energy_j * energy_factor});
    }
  }
  return result;
}

/// The rows of a backward with `share` of the forward's, at the clocks that both have.
std::vector<Measurement> with_forward(std::span<const Measurement> backward, std::span<const Measurement> forward,
                                      double share) {
  std::vector<Measurement> rows;
  for (const Measurement& row : backward) {
    const auto repeated = std::ranges::find(forward, row.clock_mhz, &Measurement::clock_mhz);
    if (repeated == forward.end()) continue;
    rows.push_back({row.clock_mhz, row.time_s + share * repeated->time_s, row.energy_j + share * repeated->energy_j});
  }
  return rows;
}

StageProfile recomputed(const StageProfile& layers, Recomputation recomputation) {
  const double share = recomputation == Recomputation::added ? 1 : -1;
  StageProfile result(layers.stages());
  for (const StageOp& op : layers.ops()) {
    if (op.kind != OpKind::backward && op.kind != OpKind::input_gradient) {
      for (const Measurement& row : op.measurements) result.add(op.stage, op.kind, row);
      continue;
    }
    const auto rows = with_forward(op.measurements, layers.measurements(op.stage, OpKind::forward), share);
    if (rows.empty()) {
      throw InputError(
          fmt::format("layer {} was not measured at any clock in both forward and {}", op.stage, name(op.kind)));
    }
    for (const Measurement& row : rows) {
      if (row.time_s <= 0 || row.energy_j <= 0) {
        throw InputError(
            fmt::format("layer {} takes no more for {} than for forward at {} MHz: it was not measured with "
                        "recomputation, which cannot be removed",
                        op.stage, name(op.kind), row.clock_mhz));
      }
      result.add(op.stage, op.kind, row);
    }
  }
  return result;
}

/// Without what is not a forward of the first `frozen` places.
StageProfile frozen(const StageProfile& profile, int frozen) {
  StageProfile result(profile.stages());
  for (const auto& [place, kind, rows] : profile.ops()) {
    if (place < frozen && kind != OpKind::forward) continue;
    for (const Measurement& row : rows) result.add(place, kind, row);
  }
  return result;
}

}  // namespace

std::vector<LayerScale> dropped_weight_gradients(int layers, double share) {
  if (!(share >= 0 && share < 1)) {
    throw InputError(fmt::format("{} of the weight gradients left out: give a share from 0 to below 1", share));
  }
  const auto scale = [layers](OpKind kind, double factor) {
    return LayerScale{.begin = 0, .end = layers, .time_factor = factor, .energy_factor = factor, .kind = kind};
  };
  return {scale(OpKind::weight_gradient, 1 - share), scale(OpKind::backward, 1 - share / 2)};
}

profile::LayerProfile changed_profile(const profile::LayerProfile& profile, const WorkChange& change) {
  check(profile, change);
  profile::LayerProfile result = profile;
  if (!change.scales.empty()) result.layers = scaled(result.layers, change.scales);
  if (change.recomputation != Recomputation::as_measured) {
    result.layers = recomputed(result.layers, change.recomputation);
  }
  if (change.frozen_layers > 0) {
    result.layers = frozen(result.layers, change.frozen_layers);
    result.ends = frozen(result.ends, 1);
  }
  return result;
}

}  // namespace lowgear::workflow

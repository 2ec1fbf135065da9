#pragma once

#include <optional>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/profile/layers/layer_profile.h"

namespace lowgear::workflow {

/// Layers [begin, end) that take so many times their time and energy: another precision.
struct LayerScale {
  int begin = 0;
  int end = 0;
  double time_factor = 1;
  double energy_factor = 1;
  std::optional<OpKind> kind = {};  ///< empty: all
};

/// Whether the layers repeat their forward before their backward.
enum class Recomputation {
  as_measured,
  added,    ///< the profile was measured without
  removed,  ///< the profile was measured with recomputation of whole layers
};

/// What of a job's work differs from the profile. Microbatches are not here: the schedule has them.
struct WorkChange {
  int frozen_layers = 0;  ///< the first ones, and with them the embedding; at least the last layer trains
  std::vector<LayerScale> scales = {};
  Recomputation recomputation = Recomputation::as_measured;
};

/// Of a share of the weight gradients of `layers` layers that is left out, on the average of many steps. Where a
/// backward is one operation, half of it is taken to be weight gradients: attention's products, which have none, make
/// that too much. Throws InputError when the share is not in [0, 1).
[[nodiscard]] std::vector<LayerScale> dropped_weight_gradients(int layers, double share);

/// Largest factor of a scale; the least is its inverse.
inline constexpr double kMaxWorkFactor = 1000;

/// The profile of the changed work, *planned*: a frozen layer has no backward of any kind; a recomputed one has its
/// forward in the backward (the input gradient, where backwards are split), both scaled. The first layer that trains
/// keeps its whole input gradient, most of which its weight gradients need. Throws InputError when a layer is out of
/// range, a factor is not in [1/kMaxWorkFactor, kMaxWorkFactor], nothing trains, or recomputation is removed from a
/// layer whose backward takes no more than its forward.
[[nodiscard]] profile::LayerProfile changed_profile(const profile::LayerProfile& profile, const WorkChange& change);

}  // namespace lowgear::workflow

#pragma once

#include <string>
#include <vector>

#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// How many layers each stage has, in the order of the stages.
using Partition = std::vector<int>;

/// Layers of all stages. Throws InputError unless every stage has at least one and all together have at most
/// kMaxStages.
[[nodiscard]] int layer_count(const Partition& partition);

/// `layers` over `stages`, the first stages one more when they do not divide. Throws InputError when there are fewer
/// layers than stages, or no stage.
[[nodiscard]] Partition uniform_partition(int layers, int stages);

/// Time and energy of every layer, kind and clock, from which a stage profile of any partition can be made.
struct LayerProfile {
  StageProfile layers;  ///< by layer, in the place of the stage. A frozen layer has forwards only
  /// Costs of the first (0) and the last stage (1) in addition to layers: embedding, and final norm with head. Kinds
  /// that cost nothing of note are missing.
  StageProfile ends{2};
};

/// The layers of a profile that was measured with this partition. Every layer of a stage has the same share of it; what
/// the last stage takes beyond its layers, and the first one beyond its, at the mean cost of a layer of the stages in
/// between (with two stages: of the first one), belongs to the ends, where that is more than a thousandth of the stage
/// at every clock in both time and energy. So a stage profile of the same partition has the same figures again, and
/// differences between stages are taken to be of their layers, not of their GPUs. Nothing may be frozen in the profile.
/// Throws InputError when partition and profile have different numbers of stages, some stages split their backwards and
/// others do not, the first stage has no backward, or the profile has settings.
[[nodiscard]] LayerProfile layer_profile_of(const StageProfile& stages, const Partition& partition);

/// The profile of a partition: sums over the layers of each stage, at the clocks that all of them have for a kind.
/// Stages of frozen layers alone have forwards only. Throws InputError when the partition is of another number of
/// layers, or the layers of a stage have no clock of a kind in common.
[[nodiscard]] StageProfile stage_profile_of(const LayerProfile& profile, const Partition& partition);

/// CSV with the columns `layer,instruction,frequency,time,energy`: the layers, 0-based, and as `first` and `last` what
/// those stages have besides. Numbers have enough digits to be read back unchanged.
[[nodiscard]] std::string write_layer_profile(const LayerProfile& profile);

/// The partition whose costliest stage takes least time per microbatch at the fastest clocks, forward and backward
/// together; among those the one whose stages' times have the least sum of squares. Exact (`divide_evenly`). Throws
/// InputError when there are fewer layers than stages.
[[nodiscard]] Partition balanced_partition(const LayerProfile& profile, int stages);

}  // namespace lowgear::profile

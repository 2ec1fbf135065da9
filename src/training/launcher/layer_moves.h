#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimating/model/partition.h"

namespace lowgear::launcher {

/// A layer that changes its place in the pipeline, and with it its weights and all that training keeps for each of
/// them.
struct LayerMove {
  std::int64_t layer = 0;
  int from = 0;  ///< positions in the pipeline
  int to = 0;

  friend bool operator==(const LayerMove&, const LayerMove&) = default;
};

/// What has to move between the ranks of a pipeline when its stages get other layers, by layer. `rank_of` has the
/// position of every stage. The moves are those of every replica and of every tensor-parallel rank: each sends its own
/// part to the rank with the same place in the other stage. The ends of the model, embedding and head, stay where they
/// are. Both partitions are of one model over as many stages as `rank_of` has.
[[nodiscard]] std::vector<LayerMove> layer_moves(std::span<const model::LayerRange> before,
                                                 std::span<const model::LayerRange> after,
                                                 std::span<const int> rank_of);

/// The most layers that one rank sends and receives: what decides how long the moves take.
[[nodiscard]] std::int64_t busiest_rank_moves(std::span<const LayerMove> moves);

}  // namespace lowgear::launcher

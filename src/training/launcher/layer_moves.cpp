#include "training/launcher/layer_moves.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace lowgear::launcher {
namespace {

/// The position that has each layer, by layer.
std::vector<int> positions(std::span<const model::LayerRange> partition, std::span<const int> rank_of) {
  std::vector<int> result;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    result.insert(result.end(), static_cast<std::size_t>(partition[stage].size()), rank_of[stage]);
  }
  return result;
}

}  // namespace

std::vector<LayerMove> layer_moves(std::span<const model::LayerRange> before, std::span<const model::LayerRange> after,
                                   std::span<const int> rank_of) {
  const std::vector<int> from = positions(before, rank_of);
  const std::vector<int> to = positions(after, rank_of);
  std::vector<LayerMove> moves;
  for (std::size_t layer = 0; layer < from.size(); ++layer) {
    if (from[layer] != to[layer]) moves.push_back({static_cast<std::int64_t>(layer), from[layer], to[layer]});
  }
  return moves;
}

std::int64_t busiest_rank_moves(std::span<const LayerMove> moves) {
  std::map<int, std::int64_t> by_rank;
  std::int64_t most = 0;
  for (const LayerMove& move : moves) most = std::max({most, ++by_rank[move.from], ++by_rank[move.to]});
  return most;
}

}  // namespace lowgear::launcher

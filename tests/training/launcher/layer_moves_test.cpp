#include "training/launcher/layer_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace lowgear::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Partition = std::vector<model::LayerRange>;

Partition random_partition(std::mt19937& random, std::int64_t layers, int stages) {
  std::vector<std::int64_t> inner;
  for (std::int64_t layer = 1; layer < layers; ++layer) inner.push_back(layer);
  std::ranges::shuffle(inner, random);
  inner.resize(static_cast<std::size_t>(stages - 1));
  std::ranges::sort(inner);
  inner.push_back(layers);
  Partition partition;
  for (const std::int64_t end : inner) partition.push_back({partition.empty() ? 0 : partition.back().end, end});
  return partition;
}

/// Which layers each rank has.
std::map<int, std::set<std::int64_t>> layers_by_rank(const Partition& partition, const std::vector<int>& rank_of) {
  std::map<int, std::set<std::int64_t>> layers;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    for (std::int64_t layer = partition[stage].begin; layer < partition[stage].end; ++layer) {
      layers[rank_of[stage]].insert(layer);
    }
  }
  return layers;
}

TEST(LayerMoves, OfTwoStages) {
  const Partition before = {{0, 3}, {3, 6}};
  const Partition after = {{0, 5}, {5, 6}};
  EXPECT_THAT(layer_moves(before, after, std::vector<int>{0, 1}), ElementsAre(LayerMove{3, 1, 0}, LayerMove{4, 1, 0}));
  EXPECT_THAT(layer_moves(before, before, std::vector<int>{0, 1}), IsEmpty());
}

TEST(LayerMoves, WithinARankMovesNothing) {
  const Partition before = {{0, 1}, {1, 2}, {2, 4}};
  const Partition after = {{0, 1}, {1, 2}, {2, 4}};
  EXPECT_THAT(layer_moves(before, after, std::vector<int>{0, 1, 0}), IsEmpty());
  const Partition shifted = {{0, 2}, {2, 3}, {3, 4}};
  EXPECT_THAT(layer_moves(before, shifted, std::vector<int>{0, 1, 0}),
              ElementsAre(LayerMove{1, 1, 0}, LayerMove{2, 0, 1}));
}

TEST(LayerMoves, CarriedOutGiveEveryRankItsNewLayersAndNoneMoves) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const int ranks = std::uniform_int_distribution<int>(1, 5)(random);
    const int chunks = std::uniform_int_distribution<int>(1, 3)(random);
    const int stages = ranks * chunks;
    const std::int64_t layers = std::uniform_int_distribution<std::int64_t>(stages, 30)(random);
    std::vector<int> rank_of;
    for (int stage = 0; stage < stages; ++stage) rank_of.push_back(stage % ranks);
    const Partition before = random_partition(random, layers, stages);
    const Partition after = random_partition(random, layers, stages);
    const std::vector<LayerMove> moves = layer_moves(before, after, rank_of);

    std::map<int, std::set<std::int64_t>> held = layers_by_rank(before, rank_of);
    std::map<int, std::int64_t> by_rank;
    std::int64_t busiest = 0;
    for (const LayerMove& move : moves) {
      EXPECT_NE(move.from, move.to);
      EXPECT_EQ(held[move.from].erase(move.layer), 1U);
      EXPECT_TRUE(held[move.to].insert(move.layer).second);
      ++by_rank[move.from];
      ++by_rank[move.to];
    }
    for (const auto& [rank, count] : by_rank) busiest = std::max(busiest, count);
    EXPECT_EQ(held, layers_by_rank(after, rank_of));
    EXPECT_EQ(busiest_rank_moves(moves), busiest);
    EXPECT_TRUE(std::ranges::is_sorted(moves, {}, &LayerMove::layer));
  }
}

}  // namespace
}  // namespace lowgear::launcher

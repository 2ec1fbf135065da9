#include "training/launcher/rank_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lowgear::launcher {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(RankLayout, PutsNeighboursIntoATensorGroupThenReplicasThenStages) {
  const RankLayout layout({.pp = 2, .dp = 2, .tp = 2, .chunks = 1});
  EXPECT_EQ(layout.world_size(), 8);
  EXPECT_THAT(layout.tensor_group_of(5), ElementsAre(4, 5));
  EXPECT_THAT(layout.replicas_of(5), ElementsAre(5, 7));
  EXPECT_THAT(layout.pipeline_of(5), ElementsAre(1, 5));
}

TEST(RankLayout, OneRankIsAloneInEveryGroup) {
  const RankLayout layout{protocol::JobParallel{}};
  EXPECT_EQ(layout.world_size(), 1);
  EXPECT_THAT(layout.pipeline_of(0), ElementsAre(0));
  EXPECT_THAT(layout.replicas_of(0), ElementsAre(0));
  EXPECT_THAT(layout.tensor_group_of(0), ElementsAre(0));
}

TEST(RankLayout, TiesTheRanksOfTheFirstAndTheLastStage) {
  const RankLayout usual({.pp = 3, .dp = 2, .tp = 1, .chunks = 1});
  EXPECT_THAT(usual.tied_group_of(1), ElementsAre(1, 5));
  EXPECT_THAT(usual.tied_group_of(3), IsEmpty());
  EXPECT_THAT(usual.tied_group_of(5), ElementsAre(1, 5));
  const RankLayout turned({.pp = 3, .dp = 2, .tp = 1, .chunks = 1}, {.first = 2, .last = 1});
  EXPECT_THAT(turned.tied_group_of(1), IsEmpty());
  EXPECT_THAT(turned.tied_group_of(3), ElementsAre(5, 3));
  EXPECT_THAT(turned.tied_group_of(5), ElementsAre(5, 3));
}

TEST(RankLayout, TiesNoRanksWhereOneHasBothStages) {
  EXPECT_THAT(RankLayout(protocol::JobParallel{}).tied_group_of(0), IsEmpty());
  const RankLayout folded({.pp = 2, .dp = 1, .tp = 1, .chunks = 2}, {.first = 0, .last = 0});
  EXPECT_THAT(folded.tied_group_of(0), IsEmpty());
  EXPECT_THAT(folded.tied_group_of(1), IsEmpty());
}

/// How many distinct groups there are when each rank names its own; every rank must be in its group, at the position of
/// its place.
template <typename Groups, typename Position>
std::size_t partition_into(const RankLayout& layout, Groups group_of, Position position) {
  std::vector<int> times(static_cast<std::size_t>(layout.world_size()));
  std::size_t groups = 0;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const std::vector<int> group = group_of(rank);
    EXPECT_EQ(group.at(static_cast<std::size_t>(position(layout.place_of(rank)))), rank);
    for (const int member : group) EXPECT_EQ(group_of(member), group);
    if (group.front() != rank) continue;
    ++groups;
    for (const int member : group) ++times[static_cast<std::size_t>(member)];
  }
  EXPECT_THAT(times, Each(1));
  return groups;
}

TEST(RankLayout, EveryRankIsInOneGroupOfEachKind) {
  for (const int pp : {1, 2, 3}) {
    for (const int dp : {1, 2, 5}) {
      for (const int tp : {1, 4}) {
        const RankLayout layout({.pp = pp, .dp = dp, .tp = tp, .chunks = 2});
        for (int rank = 0; rank < layout.world_size(); ++rank) {
          EXPECT_EQ(layout.rank_at(layout.place_of(rank)), rank);
        }
        const auto pipeline = [&](int rank) { return layout.pipeline_of(rank); };
        const auto replicas = [&](int rank) { return layout.replicas_of(rank); };
        const auto tensor = [&](int rank) { return layout.tensor_group_of(rank); };
        EXPECT_EQ(partition_into(layout, pipeline, [](const RankPlace& place) { return place.pp; }), dp * tp);
        EXPECT_EQ(partition_into(layout, replicas, [](const RankPlace& place) { return place.dp; }), pp * tp);
        EXPECT_EQ(partition_into(layout, tensor, [](const RankPlace& place) { return place.tp; }), pp * dp);
      }
    }
  }
}

}  // namespace
}  // namespace lowgear::launcher

#include "estimating/estimator/costs/link_costs.h"

#include <gtest/gtest.h>

#include "base/core/units.h"

namespace lowgear::estimator {
namespace {

constexpr Cluster kCluster{8, {300e9, 3e-6}, {25e9, 14e-6}};

double time_s(CollectiveKind kind, double bytes, RankGroup group) {
  return LinkCosts(kCluster).cost(kind, bytes, group).time_s();
}

TEST(LinkCosts, AGroupOfOneCostsNothing) {
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
    EXPECT_EQ(time_s(kind, kGiB, {1, 1}), 0);
  }
  EXPECT_EQ(time_s(CollectiveKind::all_reduce, 0, {8, 8}), 0);
}

TEST(LinkCosts, AnAllReduceIsAReduceScatterAndAnAllGather) {
  for (const RankGroup group : {RankGroup{8, 8}, RankGroup{16, 8}, RankGroup{32, 1}}) {
    const double whole_s = time_s(CollectiveKind::all_reduce, kGiB, group);
    const double parts_s =
        time_s(CollectiveKind::reduce_scatter, kGiB, group) + time_s(CollectiveKind::all_gather, kGiB, group);
    EXPECT_LE(whole_s, parts_s);
    EXPECT_GE(whole_s, 0.9 * parts_s);
  }
}

/// Among four H200s (data/h200-sxm): what the shares were taken from, and sizes that they were not taken from.
TEST(LinkCosts, FollowsMeasuredCollectives) {
  const Cluster cluster = default_cluster(named_gpu("h200"));
  const LinkCosts costs(cluster);
  const auto time_us = [&](CollectiveKind kind, double bytes) {
    return 1e6 * costs.cost(kind, bytes, {4, 4}).time_s();
  };
  constexpr double kMiB = 1024.0 * 1024;
  EXPECT_NEAR(time_us(CollectiveKind::all_reduce, 1024), 15, 4);
  EXPECT_NEAR(time_us(CollectiveKind::all_reduce, kMiB), 24, 4);
  EXPECT_NEAR(time_us(CollectiveKind::all_reduce, 16 * kMiB), 99, 20);
  EXPECT_NEAR(time_us(CollectiveKind::all_reduce, 1024 * kMiB), 4563, 200);
  EXPECT_NEAR(time_us(CollectiveKind::all_gather, 64 * kMiB), 191, 20);
  EXPECT_NEAR(time_us(CollectiveKind::reduce_scatter, 1024 * kMiB), 2513, 100);
}

TEST(LinkCosts, ReachesTheBusBandwidthOfTheSlowestLink) {
  const auto bus_bytes_per_s = [](RankGroup group) {
    const double passed = 2 * kGiB * (group.ranks - 1) / group.ranks;
    return passed / time_s(CollectiveKind::all_reduce, kGiB, group);
  };
  EXPECT_NEAR(bus_bytes_per_s({8, 8}), 0.78 * 300e9, 2e9);
  EXPECT_NEAR(bus_bytes_per_s({32, 1}), 0.92 * 25e9, 1e9);
  // Four GPUs of each node share four adapters.
  EXPECT_NEAR(bus_bytes_per_s({32, 4}), 4 * 0.92 * 25e9, 4e9);
}

TEST(LinkCosts, SmallMessagesTakeTreesAcrossManyNodes) {
  const double few_s = time_s(CollectiveKind::all_reduce, 1024, {2, 1});
  const double many_s = time_s(CollectiveKind::all_reduce, 1024, {512, 1});
  EXPECT_LT(many_s, 15 * few_s);  // 9 levels; a ring would take 511 times as many steps
}

/// vTrain's table of all-reduces among A100s of a node (trace/a100, in place).
TEST(LinkCosts, FollowsAllReducesAmongA100s) {
  const LinkCosts costs(default_cluster(named_gpu("a100")));
  constexpr double kMiB = 1024.0 * 1024;
  const auto time_us = [&](double bytes, int ranks) {
    return 1e6 * costs.cost(CollectiveKind::all_reduce, bytes, {ranks, ranks}).time_s();
  };
  EXPECT_NEAR(time_us(8 * kMiB, 8), 130, 20);
  EXPECT_NEAR(time_us(32 * kMiB, 8), 356, 40);
  EXPECT_NEAR(time_us(1024 * kMiB, 8), 8196, 400);
  EXPECT_NEAR(time_us(32 * kMiB, 4), 282, 40);
}

TEST(LinkCosts, NodesSeparateNeighbours) {
  EXPECT_GT(time_s(CollectiveKind::send, kGiB, {2, 1}), 5 * time_s(CollectiveKind::send, kGiB, {2, 2}));
  EXPECT_GT(time_s(CollectiveKind::all_to_all, kGiB, {16, 8}), time_s(CollectiveKind::all_to_all, kGiB, {8, 8}));
}

TEST(LinkCosts, CountsWhatAGpuSends) {
  const LinkCosts costs(kCluster);
  EXPECT_DOUBLE_EQ(costs.cost(CollectiveKind::all_reduce, 800, {8, 8}).link_bytes, 1400);
  EXPECT_DOUBLE_EQ(costs.cost(CollectiveKind::all_gather, 800, {8, 8}).link_bytes, 700);
  EXPECT_DOUBLE_EQ(costs.cost(CollectiveKind::send, 800, {2, 2}).link_bytes, 800);
}

}  // namespace
}  // namespace lowgear::estimator

#include "estimating/estimator/costs/measured_collectives.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lowgear::estimator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// 100 GB/s and 10 us, times the number of ranks.
class Links final : public CollectiveCosts {
 public:
  [[nodiscard]] WorkCost cost(CollectiveKind, double bytes, const RankGroup& group) const override {
    return {.link_s = group.ranks * (10e-6 + bytes / 100e9), .link_bytes = bytes, .error_s = group.ranks * 1e-6};
  }
};
const Links kLinks;

/// Powers of two of elements at `bytes_per_s`.
SampleFile sums(int nodes, int per_node, double bytes_per_s, const std::string& function = "allreduce") {
  std::string text = "shape,nodes,GPUsPerNode,dur(us)\n";
  for (int power = 20; power <= 28; ++power) {
    const double elements = static_cast<double>(1 << power);
    text += fmt::format("{},{},{},{}\n", elements, nodes, per_node, 1e6 * 2 * elements / bytes_per_s);
  }
  const std::string name = fmt::format("X_{}_fp16_{}_{}.csv", function, nodes, per_node);
  return {name, *parse_sample_file_name(name), text};
}

double time_of(const MeasuredCollectiveCosts& costs, double bytes, const RankGroup& group) {
  return costs.cost(CollectiveKind::all_reduce, bytes, group).time_s();
}

TEST(MeasuredCollectiveCosts, InterpolateBetweenSizes) {
  const MeasuredCollectiveCosts costs({sums(1, 4, 80e9)}, named_gpu("a100"), kLinks);
  for (const double bytes : {4e6, 1e7, 123456789.0, 5e8}) {
    EXPECT_NEAR(time_of(costs, bytes, {4, 4}), bytes / 80e9, 1e-3 * bytes / 80e9);
  }
  EXPECT_THAT(costs.notes(), IsEmpty());
  const WorkCost cost = costs.cost(CollectiveKind::all_reduce, 1e8, {4, 4});
  EXPECT_EQ(cost.time_s(), cost.link_s);
  EXPECT_DOUBLE_EQ(cost.link_bytes, 1e8);
  EXPECT_GT(cost.error_s, 0);
}

TEST(MeasuredCollectiveCosts, LeaveMessagesOfNothingToTheOtherSource) {
  const MeasuredCollectiveCosts costs({sums(1, 4, 80e9)}, named_gpu("a100"), kLinks);
  EXPECT_DOUBLE_EQ(time_of(costs, 0, {4, 4}), kLinks.cost({}, 0, {4, 4}).time_s());
  EXPECT_DOUBLE_EQ(time_of(costs, 1e6, {1, 1}), kLinks.cost({}, 1e6, {1, 1}).time_s());
  EXPECT_THAT(costs.notes(), IsEmpty());
}

TEST(MeasuredCollectiveCosts, ScaleBeyondTheSizesAsTheLinksDo) {
  const MeasuredCollectiveCosts costs({sums(1, 4, 80e9)}, named_gpu("a100"), kLinks);
  const double least = 2.0 * (1 << 20);
  const double scale = (10e-6 + 1e3 / 100e9) / (10e-6 + least / 100e9);
  EXPECT_NEAR(time_of(costs, 1e3, {4, 4}), least / 80e9 * scale, 1e-9);
  EXPECT_THAT(costs.notes(),
              ElementsAre("all_reduce of 1 x 4 GPUs: messages below 2.1 MB were not sampled; scaled by the "
                          "links' data sheet"));
}

TEST(MeasuredCollectiveCosts, TakeTheNearestGroupAndSaySo) {
  const MeasuredCollectiveCosts costs({sums(2, 1, 20e9), sums(8, 1, 15e9)}, named_gpu("a100"), kLinks);
  const double exact = time_of(costs, 1e8, {8, 1});
  EXPECT_NEAR(exact, 1e8 / 15e9, 1e-3 * exact);
  EXPECT_THAT(costs.notes(), IsEmpty());
  EXPECT_NEAR(time_of(costs, 1e8, {16, 1}), 2 * exact, 1e-3 * exact);
  EXPECT_THAT(costs.notes(), ElementsAre("all_reduce of 16 x 1 GPUs: not sampled; taken from that of 8 x 1 GPUs"));
}

TEST(MeasuredCollectiveCosts, NeverTakeAGroupAcrossNodesForOneWithin) {
  const MeasuredCollectiveCosts costs({sums(8, 1, 20e9)}, named_gpu("a100"), kLinks);
  EXPECT_DOUBLE_EQ(time_of(costs, 1e8, {8, 8}), kLinks.cost({}, 1e8, {8, 8}).time_s());
  EXPECT_THAT(costs.notes(), ElementsAre("all_reduce of 1 x 8 GPUs: no samples; taken from the links' data sheet"));
}

TEST(MeasuredCollectiveCosts, SayWhereSamplesAreMuchSlowerThanTheLinks) {
  const MeasuredCollectiveCosts costs({sums(2, 1, 1.2e9)}, named_gpu("a100"), kLinks);
  EXPECT_NEAR(time_of(costs, 1e8, {2, 1}), 1e8 / 1.2e9, 1e-3);
  EXPECT_THAT(costs.notes(),
              testing::Contains(testing::HasSubstr("42 times slower in the samples than the links allow")));
}

TEST(MeasuredCollectiveCosts, TakeSmallAndLargeMessagesTogether) {
  SampleFile large = sums(1, 4, 40e9, "allreduce_large");
  large.text = "shape,nodes,GPUsPerNode,dur(us)\n1e9,1,4,50000\n";
  const MeasuredCollectiveCosts costs({large, sums(1, 4, 80e9)}, named_gpu("a100"), kLinks);
  EXPECT_NEAR(time_of(costs, 2e9, {4, 4}), 0.05, 1e-9);
  EXPECT_NEAR(time_of(costs, 1e7, {4, 4}), 1e7 / 80e9, 1e-6);
}

}  // namespace
}  // namespace lowgear::estimator

#include "planning/workflow/work_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::workflow {
namespace {

using profile::LayerProfile;
using profile::StageProfile;
using ::testing::HasSubstr;

/// Three layers of 1 s forward and 2 s backward, 10 J a second, at two clocks, with embedding and head of 0.1 s.
LayerProfile three_layers() {
  LayerProfile layers{.layers = StageProfile(3), .ends = StageProfile(2)};
  for (const int clock : {100, 200}) {
    for (int layer = 0; layer < 3; ++layer) {
      layers.layers.add(layer, OpKind::forward, {clock, 1, 10});
      layers.layers.add(layer, OpKind::backward, {clock, 2, 20});
    }
    for (const int end : {0, 1}) {
      layers.ends.add(end, OpKind::forward, {clock, 0.1, 1});
      layers.ends.add(end, OpKind::backward, {clock, 0.1, 1});
    }
  }
  return layers;
}

TEST(WorkChange, FrozenLayersHaveForwardsOnlyAndTheEmbeddingWithThem) {
  const LayerProfile changed = changed_profile(three_layers(), {.frozen_layers = 2});
  for (const int layer : {0, 1, 2}) {
    EXPECT_TRUE(changed.layers.has(layer, OpKind::forward));
    EXPECT_EQ(changed.layers.has(layer, OpKind::backward), layer == 2);
  }
  EXPECT_FALSE(changed.ends.has(0, OpKind::backward));
  EXPECT_TRUE(changed.ends.has(0, OpKind::forward));
  EXPECT_TRUE(changed.ends.has(1, OpKind::backward));
}

TEST(WorkChange, ScalesWhatItIsToldTo) {
  const LayerProfile changed = changed_profile(
      three_layers(),
      {.scales = {{.begin = 1, .end = 3, .time_factor = 0.5, .energy_factor = 0.6},
                  {.begin = 2, .end = 3, .time_factor = 3, .energy_factor = 1, .kind = OpKind::forward}}});
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(0, OpKind::forward, 100).time_s, 1);
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(1, OpKind::backward, 200).time_s, 1);
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(1, OpKind::backward, 200).energy_j, 12);
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(2, OpKind::forward, 100).time_s, 1.5);
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(2, OpKind::backward, 100).time_s, 1);
}

TEST(WorkChange, DroppedWeightGradientsShortenBackwardsAlone) {
  LayerProfile split = three_layers();
  split.layers = StageProfile(3);
  for (int layer = 0; layer < 3; ++layer) {
    split.layers.add(layer, OpKind::forward, {100, 1, 10});
    split.layers.add(layer, OpKind::input_gradient, {100, 1.2, 12});
    split.layers.add(layer, OpKind::weight_gradient, {100, 0.8, 8});
  }
  const WorkChange change{.scales = dropped_weight_gradients(3, 0.25)};
  for (const int layer : {0, 1, 2}) {
    const StageProfile whole = changed_profile(three_layers(), change).layers;
    EXPECT_DOUBLE_EQ(whole.at_clock(layer, OpKind::forward, 100).time_s, 1);
    EXPECT_DOUBLE_EQ(whole.at_clock(layer, OpKind::backward, 200).time_s, 1.75);
    EXPECT_DOUBLE_EQ(whole.at_clock(layer, OpKind::backward, 200).energy_j, 17.5);
    const StageProfile parts = changed_profile(split, change).layers;
    EXPECT_DOUBLE_EQ(parts.at_clock(layer, OpKind::input_gradient, 100).time_s, 1.2);
    EXPECT_DOUBLE_EQ(parts.at_clock(layer, OpKind::weight_gradient, 100).time_s, 0.6);
    EXPECT_DOUBLE_EQ(parts.at_clock(layer, OpKind::weight_gradient, 100).energy_j, 6);
  }
  for (const double share : {-0.1, 1.0}) EXPECT_NE(error_of([share] { (void)dropped_weight_gradients(3, share); }), "");
}

TEST(WorkChange, AddedRecomputationRepeatsTheForwardAndRemovingItUndoesThat) {
  const LayerProfile added = changed_profile(three_layers(), {.recomputation = Recomputation::added});
  EXPECT_DOUBLE_EQ(added.layers.at_clock(1, OpKind::backward, 100).time_s, 3);
  EXPECT_DOUBLE_EQ(added.layers.at_clock(1, OpKind::backward, 100).energy_j, 30);
  EXPECT_DOUBLE_EQ(added.layers.at_clock(1, OpKind::forward, 100).time_s, 1);
  EXPECT_DOUBLE_EQ(added.ends.at_clock(1, OpKind::backward, 100).time_s, 0.1);
  const LayerProfile removed = changed_profile(added, {.recomputation = Recomputation::removed});
  EXPECT_DOUBLE_EQ(removed.layers.at_clock(1, OpKind::backward, 100).time_s, 2);
}

TEST(WorkChange, RecomputationRepeatsTheScaledForwardOfActiveLayersOnly) {
  const LayerProfile changed =
      changed_profile(three_layers(), {.frozen_layers = 1,
                                       .scales = {{.begin = 0, .end = 3, .time_factor = 0.5, .energy_factor = 0.5}},
                                       .recomputation = Recomputation::added});
  EXPECT_FALSE(changed.layers.has(0, OpKind::backward));
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(1, OpKind::backward, 100).time_s, 1.5);
}

TEST(WorkChange, RefusesWhatCannotBe) {
  const auto refusal = [](const WorkChange& change) {
    return error_of([&] { (void)changed_profile(three_layers(), change); });
  };
  EXPECT_THAT(refusal({.frozen_layers = 3}), HasSubstr("at least the last layer has to train"));
  EXPECT_THAT(refusal({.frozen_layers = -1}), HasSubstr("freeze 0 to 2"));
  EXPECT_THAT(refusal({.scales = {{.begin = 1, .end = 4}}}), HasSubstr("the model has layers 0 to 2"));
  EXPECT_THAT(refusal({.scales = {{.begin = 1, .end = 1}}}), HasSubstr("the model has layers 0 to 2"));
  EXPECT_THAT(refusal({.scales = {{.begin = 0, .end = 1, .time_factor = 0}}}), HasSubstr("give a factor from"));
  EXPECT_THAT(refusal({.scales = {{.begin = 0, .end = 1, .energy_factor = 1e6}}}), HasSubstr("give a factor from"));
  EXPECT_THAT(refusal({.scales = {{.begin = 0, .end = 3, .time_factor = 4, .kind = OpKind::forward}},
                       .recomputation = Recomputation::removed}),
              HasSubstr("was not measured with recomputation"));
}

}  // namespace
}  // namespace lowgear::workflow

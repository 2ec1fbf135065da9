#include "training/launcher/partition_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "estimating/model/parameters.h"
#include "training/launcher/twelve_blocks.h"

namespace lowgear::launcher {
namespace {

/// Of a pipeline whose stages take `costs`, one after the other, and whose microbatches follow at the pace of the
/// slowest: event by event.
double simulated(const std::vector<double>& costs, int microbatches) {
  std::vector<double> free(costs.size(), 0);
  double done = 0;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    done = 0;
    for (std::size_t stage = 0; stage < costs.size(); ++stage) {
      done = free[stage] = std::max(free[stage], done) + costs[stage];
    }
  }
  return done;
}

std::vector<double> stage_costs(const TrainConfig& config, std::int64_t frozen,
                                const std::vector<model::LayerRange>& partition) {
  const model::LayerCosts all = flop_costs(config.model, config.sequence_length);
  std::vector<double> costs;
  for (const model::LayerRange& layers : partition) {
    double cost = layers.end == config.model.layers ? all.head : 0;
    for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
      cost += all.layers[static_cast<std::size_t>(layer)] * (layer < frozen ? 1.0 / 3 : 1);
    }
    costs.push_back(cost);
  }
  return costs;
}

TEST(FlopOptions, TheMoveIsToThePartitionWhoseCostliestStageCostsLeast) {
  const TrainConfig config = twelve_blocks(2);
  const std::vector<model::LayerRange> now = {{0, 6}, {6, 12}};
  for (std::int64_t frozen = 1; frozen < 12; ++frozen) {
    const PartitionOptions options = flop_options(config, frozen, now);
    EXPECT_EQ(options.stay.partition, now);
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t cut = 1; cut < 12; ++cut) {
      least = std::min(least, std::ranges::max(stage_costs(config, frozen, {{0, cut}, {cut, 12}})));
    }
    const std::vector<double> moved = stage_costs(config, frozen, options.move.partition);
    EXPECT_NEAR(std::ranges::max(moved), least, 1e-9 * least);
    const double saving =
        1 - simulated(moved, config.microbatches) / simulated(stage_costs(config, frozen, now), config.microbatches);
    EXPECT_NEAR(options.saving, saving, 1e-12);
  }
}

TEST(FlopOptions, WithNothingFrozenTheMoveIsBackToTheJobsOwnPartition) {
  TrainConfig config = twelve_blocks(2);
  config.partition = "custom:0,5,12";
  const PartitionOptions options = flop_options(config, 0, std::vector<model::LayerRange>{{0, 8}, {8, 12}});
  EXPECT_EQ(options.move.partition, (std::vector<model::LayerRange>{{0, 5}, {5, 12}}));
  EXPECT_GT(options.saving, 0);
}

TEST(IsWorthMoving, OnlyForASavingThatPaysInTheStepsLeft) {
  const PartitionOptions moves{.stay = {{{0, 1}, {1, 4}}}, .move = {{{0, 2}, {2, 4}}}, .saving = 0.1};
  EXPECT_TRUE(is_worth_moving(moves, {.step_time_s = 1, .switch_time_s = 2, .steps_left = 21}));
  EXPECT_FALSE(is_worth_moving(moves, {.step_time_s = 1, .switch_time_s = 2, .steps_left = 19}));
  EXPECT_TRUE(is_worth_moving(moves, {.step_time_s = 0, .switch_time_s = 2, .steps_left = 19})) << "before any step";
  PartitionOptions small = moves;
  small.saving = 0.009;
  EXPECT_FALSE(is_worth_moving(small, {.step_time_s = 1, .switch_time_s = 0, .steps_left = 1'000'000}));
  PartitionOptions same = moves;
  same.move = same.stay;
  EXPECT_FALSE(is_worth_moving(same, {.step_time_s = 1, .switch_time_s = 0, .steps_left = 1'000'000}));
}

TEST(LayerStateBytes, AreTwelveForEachParameterOfALayer) {
  const model::ModelConfig config = twelve_blocks(1).model;
  std::int64_t elements = 0;
  for (const model::ParameterSpec& spec : parameters(config)) {
    if (spec.part == model::Part::layer) elements += model::element_count(spec.shape);
  }
  EXPECT_DOUBLE_EQ(layer_state_bytes(config, 1), 12.0 * static_cast<double>(elements) / 12);
  EXPECT_LT(layer_state_bytes(config, 2), layer_state_bytes(config, 1));
}

}  // namespace
}  // namespace lowgear::launcher

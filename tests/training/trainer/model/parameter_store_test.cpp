#include "training/trainer/model/parameter_store.h"

#include <gtest/gtest.h>

#include <numeric>

#include "estimating/model/partition.h"
#include "training/trainer/test_models.h"

namespace lowgear::trainer {
namespace {

/// The FLOPs of a block are these, three times, and attention.
TEST(BlockLinears, HaveAllWeightsOfABlock) {
  for (const model::ModelConfig& config : {tiny_llama(), tiny_gpt2()}) {
    const std::vector<std::int64_t> weights = linear_weights(config);
    ASSERT_EQ(weights.size(), static_cast<std::size_t>(kBlockLinears));
    const auto sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    constexpr std::int64_t kTokens = 16;
    const auto attention = static_cast<double>(12 * config.heads * config.head_dim * kTokens);
    EXPECT_EQ(6 * sum, flop_costs(config, kTokens).layers.front() - attention);
  }
}

}  // namespace
}  // namespace lowgear::trainer

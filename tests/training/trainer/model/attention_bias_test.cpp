#include "training/trainer/model/attention_bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "training/trainer/transport/in_process_transport.h"

namespace lowgear::trainer {
namespace {

double at_place(const at::Tensor& bias, std::int64_t head, std::int64_t query, std::int64_t key) {
  return bias[head][query][key].item<double>();
}

TEST(AttentionBiases, HideWhatIsLaterOrBeforeTheWindow) {
  InProcessHub hub;
  const std::unique_ptr<Collective> alone = hub.group("tp", 0, 1);
  const model::ModelConfig config;
  AttentionBiases biases(config, *alone);
  const at::Tensor bias = biases.get({.window = 2, .time = 4}, at::kCPU);
  ASSERT_EQ(bias.sizes().vec(), (std::vector<std::int64_t>{1, 4, 4}));
  for (std::int64_t query = 0; query < 4; ++query) {
    for (std::int64_t key = 0; key < 4; ++key) {
      const bool seen = key == query || key + 1 == query;
      EXPECT_EQ(at_place(bias, 0, query, key), seen ? 0.0 : -INFINITY) << query << ", " << key;
    }
  }
}

/// The slopes of six heads by Press et al.: 2^-2, 2^-4, 2^-6 and 2^-8, then every other one of eight heads.
TEST(AttentionBiases, AreOfTheRanksOwnHeads) {
  InProcessHub hub;
  const std::unique_ptr<Collective> second = hub.group("tp", 1, 2);
  model::ModelConfig config;
  config.positions = model::PositionKind::alibi;
  config.heads = 6;
  AttentionBiases biases(config, *second);
  const at::Tensor bias = biases.get({.time = 3}, at::kCPU);
  ASSERT_EQ(bias.sizes().vec(), (std::vector<std::int64_t>{3, 3, 3}));
  constexpr double kSlopes[] = {1.0 / 256, 1.0 / 2, 1.0 / 8};
  for (std::int64_t head = 0; head < 3; ++head) {
    EXPECT_EQ(at_place(bias, head, 2, 1), kSlopes[head]);
    EXPECT_EQ(at_place(bias, head, 2, 2), 2 * kSlopes[head]);
    EXPECT_EQ(at_place(bias, head, 0, 1), -INFINITY);
  }
}

TEST(AttentionBiases, AreKeptUntilSequencesAreOfAnotherLength) {
  InProcessHub hub;
  const std::unique_ptr<Collective> alone = hub.group("tp", 0, 1);
  const model::ModelConfig config;
  AttentionBiases biases(config, *alone);
  const at::Tensor all = biases.get({.time = 4}, at::kCPU);
  const at::Tensor window = biases.get({.window = 2, .time = 4}, at::kCPU);
  EXPECT_TRUE(biases.get({.time = 4}, at::kCPU).is_same(all));
  EXPECT_TRUE(biases.get({.window = 2, .time = 4}, at::kCPU).is_same(window));
  EXPECT_EQ(biases.get({.time = 5}, at::kCPU).size(-1), 5);
}

}  // namespace
}  // namespace lowgear::trainer

#include "training/trainer/engine/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include "training/trainer/state_job.h"
#include "training/trainer/test_models.h"

namespace lowgear::trainer {

namespace {

struct Replicas {
  int dp = 1;
  int tp = 1;
  bool zero1 = false;
  bool bf16 = false;

  friend void PrintTo(const Replicas& r, std::ostream* out) {
    *out << "dp" << r.dp << " tp" << r.tp << (r.zero1 ? " zero1" : "") << (r.bf16 ? " bf16" : "");
  }
};

class FrozenOptimizer : public testing::TestWithParam<Replicas> {
 protected:
  [[nodiscard]] static launcher::TrainConfig config() {
    launcher::TrainConfig config;
    config.model = tiny_llama(true);
    config.parallel = {.pp = 1, .dp = GetParam().dp, .tp = GetParam().tp, .chunks = 1};
    config.optimizer.zero1 = GetParam().zero1;
    config.bf16 = GetParam().bf16;
    return config;
  }
};

/// How many elements of each moment the rank holds, each of them the one that was made up.
std::int64_t expect_made_up(StateRank& rank) {
  std::int64_t held = 0;
  rank.for_each_stretch([&](const Parameter& parameter, int moment, std::int64_t begin, const at::Tensor& stretch) {
    const at::Tensor expected = made_up_moment(parameter, moment).narrow(0, begin, stretch.numel());
    EXPECT_TRUE(at::equal(stretch, expected)) << parameter.name << " moment " << moment;
    held += stretch.numel();
  });
  return held;
}

TEST_P(FrozenOptimizer, KeepsEveryMomentThroughChangesOfThePrefix) {
  run_state_job(config(), [](StateRank& rank) {
    rank.for_each_stretch([&](const Parameter& parameter, int moment, std::int64_t begin, const at::Tensor& stretch) {
      stretch.copy_(made_up_moment(parameter, moment).narrow(0, begin, stretch.numel()));
    });
    rank.optimizer().publish();
    std::int64_t parameters = 0;
    for (const Parameter& parameter : rank.store().parameters()) parameters += parameter.count();
    for (const std::int64_t blocks : {0, 3, 7, 1, 0}) {
      SCOPED_TRACE(std::to_string(blocks) + " blocks");
      rank.optimizer().freeze(blocks, [] {});
      const std::int64_t held = expect_made_up(rank);
      if (!GetParam().zero1) {
        EXPECT_EQ(held, 3 * parameters);
      }
      for (const Parameter& parameter : rank.store().parameters()) {
        EXPECT_EQ(parameter.frozen, in_frozen_prefix(parameter, blocks));
        EXPECT_EQ(parameter.gradient.defined(), !parameter.frozen);
        const at::Tensor expected = made_up_moment(parameter, 0).to(parameter.value.scalar_type());
        EXPECT_TRUE(at::equal(parameter.value.flatten(), expected)) << parameter.name;
      }
    }
  });
}

TEST_P(FrozenOptimizer, DividesTheTrainedParametersEvenly) {
  run_state_job(config(), [](StateRank& rank) {
    rank.optimizer().freeze(5, [] {});
    const std::int64_t replicas = GetParam().zero1 ? GetParam().dp : 1;
    EXPECT_EQ(rank.optimizer().state().mean.numel() * replicas, rank.store().trained());
    std::int64_t trained = 0;
    for (const Parameter& parameter : rank.store().parameters()) trained += parameter.frozen ? 0 : parameter.count();
    EXPECT_GE(rank.store().trained(), trained);
    EXPECT_LT(rank.store().trained(), trained + 64 * GetParam().dp);
  });
}

INSTANTIATE_TEST_SUITE_P(Replicas, FrozenOptimizer,
                         testing::Values(Replicas{}, Replicas{1, 1, false, true}, Replicas{2}, Replicas{2, 1, true},
                                         Replicas{2, 1, true, true}, Replicas{3, 2, true, true}));

/// The values after one step on gradients of one, by name.
std::map<std::string, at::Tensor> stepped(const SlowerBlocks& slower, bool zero1) {
  launcher::TrainConfig config;
  config.model = tiny_llama();
  config.parallel.dp = 2;
  config.optimizer.zero1 = zero1;
  std::map<std::string, at::Tensor> values;
  std::mutex mutex;
  run_state_job(config, [&](StateRank& rank) {
    initialize(rank.store(), config.model.layers, 3);
    rank.store().gradients().fill_(1);
    (void)rank.optimizer().step(0.01, slower);
    const std::scoped_lock lock(mutex);
    for (const Parameter& parameter : rank.store().parameters()) {
      values[parameter.name] = parameter.value.detach().clone();
    }
  });
  return values;
}

TEST(SlowerBlocks, ChangeLessThanOthers) {
  for (const bool zero1 : {false, true}) {
    const auto initial = stepped({.from = 0, .until = 8, .factor = 0}, zero1);  // and the embedding; the head is not
    const auto plain = stepped({}, zero1);
    const auto slower = stepped({.from = 2, .until = 4, .factor = 0.25}, zero1);
    for (const auto& [name, value] : plain) {
      const bool slow = name.starts_with("model.layers.2.") || name.starts_with("model.layers.3.");
      if (!slow) {
        EXPECT_TRUE(at::equal(slower.at(name), value)) << name;
        continue;
      }
      const at::Tensor whole = value - initial.at(name);
      EXPECT_TRUE(at::allclose(slower.at(name) - initial.at(name), 0.25 * whole, 1e-3, 1e-7)) << name;
      EXPECT_GT(whole.abs().max().item<double>(), 1e-3);
    }
  }
}

/// By the definition, in fp64, element by element.
TEST(StateSquares, AreThoseOfMomentChangeAndValue) {
  const at::Tensor master = at::arange(1, 1001, at::kFloat).sin();
  const at::Tensor mean = at::arange(1, 1001, at::kFloat).cos() * 1e-3;
  const at::Tensor variance = mean.square() * 0.5 + 1e-8;
  const kernels::AdamWStep step{.epsilon = 1e-8, .mean_correction = 0.3, .variance_correction = 0.02};
  const at::Tensor sums = at::ones({3}, at::kDouble);
  kernels::add_state_squares(sums, master, mean, variance, step);
  double expected[3] = {1, 1, 1};
  for (int i = 0; i < 1000; ++i) {
    const double m = mean[i].item<float>();
    const double change = m / 0.3 / (std::sqrt(variance[i].item<float>() / 0.02) + 1e-8);
    const double value = master[i].item<float>();
    expected[0] += m * m;
    expected[1] += change * change;
    expected[2] += value * value;
  }
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(sums[i].item<double>(), expected[i], 1e-5 * expected[i]) << i;
}

using testing::DoubleNear;
using testing::Pointwise;

std::vector<double> rates(const launcher::OptimizerConfig& config, std::int64_t steps) {
  std::vector<double> rates;
  for (std::int64_t step = 0; step < steps; ++step) rates.push_back(learning_rate(config, step, steps));
  return rates;
}

auto near(const std::vector<double>& expected) {
  constexpr double kRounding = 1e-15;
  return Pointwise(DoubleNear(kRounding), expected);
}

TEST(LearningRate, FallsTowardsTheLeastAfterTheLastStep) {
  const launcher::OptimizerConfig config{.learning_rate = 4e-3};
  // 4e-3 (1 + cos(pi k/4)) / 2
  EXPECT_THAT(rates(config, 4), near({4e-3, 3.414213562373095e-3, 2e-3, 5.857864376269049e-4}));
  EXPECT_EQ(learning_rate(config, 4, 4), 0);
  EXPECT_EQ(learning_rate(config, 5, 4), 0);
}

TEST(LearningRate, EndsAboveTheLeast) {
  const launcher::OptimizerConfig config{.learning_rate = 3e-3, .min_learning_rate = 1e-3};
  EXPECT_THAT(rates(config, 2), near({3e-3, 2e-3}));
  EXPECT_EQ(learning_rate(config, 2, 2), 1e-3);
}

TEST(LearningRate, RisesOverTheWarmUpFirst) {
  const launcher::OptimizerConfig config{.learning_rate = 4e-3, .warmup_steps = 2};
  EXPECT_THAT(rates(config, 4), near({2e-3, 4e-3, 4e-3, 2e-3}));
  EXPECT_EQ(learning_rate(config, 4, 4), 0);
}

TEST(LearningRate, OfAWarmUpToTheEndOnlyRises) {
  launcher::OptimizerConfig config{.learning_rate = 4e-3, .warmup_steps = 4};
  EXPECT_THAT(rates(config, 4), near({1e-3, 2e-3, 3e-3, 4e-3}));
  EXPECT_EQ(learning_rate(config, 4, 4), 0);
  config.warmup_steps = 3;
  EXPECT_EQ(learning_rate(config, 3, 4), 4e-3) << "the fall begins with the highest";
}

TEST(LearningRate, OfASingleStepIsTheHighest) { EXPECT_EQ(learning_rate({.learning_rate = 4e-3}, 0, 1), 4e-3); }

}  // namespace

}  // namespace lowgear::trainer

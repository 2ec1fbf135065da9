#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/core/temporary_folder.h"
#include "planning/adapt/freezing/weight_gradient_rotation.h"
#include "training/trainer/autograd_training.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/test_models.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using testing::Each;
using testing::IsEmpty;

constexpr double kBudget = 0.3;

launcher::TrainConfig dropping(launcher::TrainConfig config) {
  config.steps = 8;
  config.freeze.weight_gradient_budget = kBudget;
  return config;
}

/// Which operation of the rotation a parameter belongs to; -1: none.
std::int64_t operation_of(const std::string& name) {
  const std::vector<std::pair<std::string, std::int64_t>> linears = {
      {"q_proj", 0},    {"k_proj", 0}, {"v_proj", 0},      {"o_proj", 1}, {"gate_proj", 2}, {"up_proj", 2},
      {"down_proj", 3}, {"c_attn", 0}, {"attn.c_proj", 1}, {"c_fc", 2},   {"mlp.c_proj", 3}};
  for (const std::string prefix : {"model.layers.", "transformer.h."}) {
    if (!name.starts_with(prefix)) continue;
    for (const auto& [part, linear] : linears) {
      if (name.find(part) != std::string::npos) return std::stoll(name.substr(prefix.size())) * kBlockLinears + linear;
    }
  }
  return -1;
}

/// What a rotation says, replayed without a trainer.
std::vector<std::vector<std::int64_t>> replayed(const launcher::TrainConfig& config) {
  adapt::freezing::WeightGradientRotation rotation(config.model.layers, linear_weights(config.model), kBudget);
  std::vector<std::vector<std::int64_t>> steps;
  for (std::int64_t step = 0; step < config.steps; ++step) {
    const bool warming_up = step < config.optimizer.warmup_steps;
    const auto drops = rotation.drops();
    steps.push_back(warming_up ? std::vector<std::int64_t>{} : drops.operations);
    if (!warming_up) rotation.advance();
  }
  return steps;
}

TEST(DroppedGradients, IsTrainingWithoutThemInThoseSteps) {
  for (const bool gpt2 : {false, true}) {
    SCOPED_TRACE(gpt2 ? "gpt2" : "llama");
    launcher::TrainConfig config = dropping(small_job({}));
    if (gpt2) {
      config.model = tiny_gpt2();
      config.model.vocabulary = 256;
      config.model.layers = 3;
      // Attention does not depend on the bias of keys: its gradient is noise, by which AdamW would divide.
      config.optimizer.epsilon = 1e-2;
    }
    config.optimizer.learning_rate = 1e-3;
    config.optimizer.clip_norm = 0.5;
    const auto drops = replayed(config);
    const auto trained = [&drops](const std::string& name, std::int64_t step) {
      return !std::ranges::binary_search(drops[static_cast<std::size_t>(step)], operation_of(name));
    };
    const auto expected = trained_by_autograd(config, initial_parameters(config), trained);
    const Outcome outcome = train(config);
    EXPECT_EQ(outcome.dropped, drops);
    ASSERT_EQ(outcome.weights.size(), expected.size());
    for (const auto& [name, weight] : expected) {
      EXPECT_LE(relative_difference(outcome.weights.at(name), weight), 1e-6) << name;
    }
  }
}

/// That comparison would see weight decay, moments or a step too many.
TEST(DroppedGradients, DiffersFromTrainingAll) {
  launcher::TrainConfig config = dropping(small_job({}));
  const Outcome dropped = train(config);
  config.freeze = {};
  const Outcome all = train(config);
  EXPECT_TRUE(all.dropped.empty());
  EXPECT_GT(relative_difference(dropped.weights.at("model.layers.3.mlp.up_proj.weight"),
                                all.weights.at("model.layers.3.mlp.up_proj.weight")),
            1e-4);
}

TEST(DroppedGradients, LeavesOutNothingInTheWarmUp) {
  launcher::TrainConfig config = dropping(small_job({}));
  config.optimizer.warmup_steps = config.steps;
  EXPECT_THAT(train(config).dropped, Each(IsEmpty()));
}

TEST(DroppedGradients, OfAPlaceboAreDecidedAndComputed) {
  launcher::TrainConfig config = dropping(small_job({.dp = 2}));
  const Outcome dropped = train(config);
  config.adapt.placebo = true;
  const Outcome placebo = train(config);
  config.freeze = {};
  const Outcome plain = train(config);
  EXPECT_EQ(placebo.dropped, dropped.dropped);
  EXPECT_EQ(placebo.losses, plain.losses);
  EXPECT_NE(dropped.losses, plain.losses);
}

struct DropCase {
  protocol::JobParallel parallel;
  std::string schedule = "1f1b";
  bool zero1 = false;
  bool bf16 = false;
  launcher::Recompute recompute = launcher::Recompute::none;

  friend void PrintTo(const DropCase& c, std::ostream* out) {
    *out << c.schedule << " pp" << c.parallel.pp << " dp" << c.parallel.dp << " tp" << c.parallel.tp
         << (c.zero1 ? " zero1" : "") << (c.bf16 ? " bf16" : "") << " recompute " << name(c.recompute);
  }
};

class DroppedGradientsLayout : public testing::TestWithParam<DropCase> {
 protected:
  [[nodiscard]] static launcher::TrainConfig job() {
    launcher::TrainConfig config = dropping(small_job(GetParam().parallel));
    config.schedule = GetParam().schedule;
    config.optimizer.zero1 = GetParam().zero1;
    config.bf16 = GetParam().bf16;
    config.recompute = GetParam().recompute;
    config.gradient_bucket_bytes = 1 << 14;  // several buckets, of which some hold what a step leaves out
    return config;
  }
};

TEST_P(DroppedGradientsLayout, TrainsAsOneProcessDoes) {
  launcher::TrainConfig single = job();
  single.schedule = "gpipe";
  single.microbatches *= single.parallel.dp;
  single.parallel = {};
  single.optimizer.zero1 = false;
  const Outcome expected = train(single);
  const Outcome outcome = train(job());
  EXPECT_EQ(outcome.dropped, expected.dropped);
  ASSERT_EQ(outcome.losses.size(), expected.losses.size());
  const double tolerance = GetParam().bf16 ? 0.02 : 1e-4;
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(outcome.losses[i], expected.losses[i], tolerance * expected.losses[i]) << i;
  }
  // In fp32 a pipeline changes no bit.
  if (GetParam().parallel.dp * GetParam().parallel.tp == 1) {
    EXPECT_EQ(outcome.losses, expected.losses);
  }
}

TEST_P(DroppedGradientsLayout, ResumesWithTheSameBits) {
  const Outcome straight = train(job());
  for (const std::int64_t last : {0, 3, 6}) {
    SCOPED_TRACE("interrupted after step " + std::to_string(last));
    const TemporaryFolder folder;
    launcher::TrainConfig interrupted = job();
    interrupted.checkpoint = folder.path();
    const Outcome first = train(interrupted, last);
    const Outcome second = train(interrupted);
    std::vector<double> losses = first.losses;
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    EXPECT_EQ(losses, straight.losses);
    for (const auto& [rank, values] : straight.values) EXPECT_TRUE(at::equal(second.values.at(rank), values)) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, DroppedGradientsLayout,
                         testing::Values(DropCase{{}}, DropCase{{}, "gpipe", false, true},
                                         DropCase{{}, "1f1b", false, false, launcher::Recompute::full},
                                         DropCase{{.pp = 2}, "1f1b", false, false, launcher::Recompute::attention},
                                         DropCase{{.pp = 4}, "zb-h1"}, DropCase{{.pp = 2, .chunks = 2}, "interleaved"},
                                         DropCase{{.dp = 2}}, DropCase{{.dp = 2}, "1f1b", true},
                                         DropCase{{.dp = 3}, "1f1b", true, true},
                                         DropCase{{.pp = 2, .dp = 2}, "zb-h1", true},
                                         DropCase{{.pp = 2, .dp = 2, .tp = 2}, "1f1b", true, true}));

TEST(DroppedGradients, GoAlongWhenLayersMove) {
  launcher::TrainConfig config = dropping(small_job({.pp = 2}));
  const Outcome straight = train(config);
  config.adapt.repartition.emplace().schedule = {{.step = 4, .partition = "custom:0,3,4"}};
  const Outcome moved = train(config);
  EXPECT_EQ(moved.moved_bytes.size(), 1U);
  EXPECT_EQ(moved.losses, straight.losses);
}

}  // namespace
}  // namespace lowgear::trainer

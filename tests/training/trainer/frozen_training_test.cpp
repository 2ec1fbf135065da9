#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "planning/adapt/change_record.h"
#include "training/dataset/synthetic_corpus.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/trainer/autograd_training.h"
#include "training/trainer/test_models.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using testing::Each;
using testing::ElementsAre;

launcher::TrainConfig frozen_job(const protocol::JobParallel& parallel, std::int64_t blocks) {
  launcher::TrainConfig config = small_job(parallel);
  config.freeze.prefixes = {{.step = 0, .blocks = blocks}};
  return config;
}

TEST(FrozenTraining, IsTrainingWithoutTheseParametersFromTheStart) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "not tied");
    launcher::TrainConfig config = frozen_job({}, 2);
    config.model.tied_embeddings = tied;
    config.optimizer.learning_rate = 1e-3;
    config.optimizer.clip_norm = 0.5;
    const NamedParameters initial = initial_parameters(config);
    const auto trained = [](const std::string& name, std::int64_t /*step*/) {
      return name.find("embed_tokens") == std::string::npos && !name.starts_with("model.layers.0.") &&
             !name.starts_with("model.layers.1.");
    };
    const std::map<std::string, at::Tensor> expected = trained_by_autograd(config, initial, trained);
    const Outcome outcome = train(config);
    ASSERT_EQ(outcome.weights.size(), expected.size());
    for (const auto& [name, weight] : expected) {
      EXPECT_LE(relative_difference(outcome.weights.at(name), weight), 1e-6) << name;
      EXPECT_EQ(at::equal(outcome.weights.at(name), initial.values.at(name)), !trained(name, 0)) << name;
    }
  }
}

/// That comparison would see a frozen parameter in the clipping, or its weight decay.
TEST(FrozenTraining, DiffersFromTrainingAll) {
  launcher::TrainConfig config = frozen_job({}, 2);
  config.optimizer.learning_rate = 1e-3;
  config.optimizer.clip_norm = 0.5;
  const Outcome frozen = train(config);
  config.freeze = {};
  const Outcome all = train(config);
  EXPECT_LT(frozen.gradient_norms.front(), all.gradient_norms.front() * 0.999);
  EXPECT_GT(relative_difference(frozen.weights.at("model.layers.3.mlp.up_proj.weight"),
                                all.weights.at("model.layers.3.mlp.up_proj.weight")),
            1e-5);
}

struct FrozenCase {
  protocol::JobParallel parallel;
  std::string schedule = "1f1b";
  bool zero1 = false;
  bool bf16 = false;

  friend void PrintTo(const FrozenCase& c, std::ostream* out) {
    *out << c.schedule << " pp" << c.parallel.pp << " dp" << c.parallel.dp << " tp" << c.parallel.tp
         << (c.zero1 ? " zero1" : "") << (c.bf16 ? " bf16" : "");
  }
};

class FrozenLayout : public testing::TestWithParam<FrozenCase> {
 protected:
  [[nodiscard]] static launcher::TrainConfig job(const std::vector<launcher::FreezeConfig::Prefix>& prefixes) {
    launcher::TrainConfig config = small_job(GetParam().parallel);
    config.schedule = GetParam().schedule;
    config.optimizer.zero1 = GetParam().zero1;
    config.bf16 = GetParam().bf16;
    config.freeze.prefixes = prefixes;
    return config;
  }
};

/// Freezes, freezes more, and trains all again.
std::vector<launcher::FreezeConfig::Prefix> changes() { return {{1, 1}, {2, 3}, {4, 0}, {5, 2}}; }

TEST_P(FrozenLayout, TrainsAsOneProcessDoes) {
  for (const auto& prefixes : {std::vector<launcher::FreezeConfig::Prefix>{{0, 2}}, changes()}) {
    launcher::TrainConfig single = job(prefixes);
    single.schedule = "gpipe";
    single.microbatches *= single.parallel.dp;
    single.parallel = {};
    single.optimizer.zero1 = false;
    const Outcome expected = train(single);
    const Outcome outcome = train(job(prefixes));
    EXPECT_EQ(outcome.frozen, expected.frozen);
    ASSERT_EQ(outcome.losses.size(), expected.losses.size());
    const double tolerance = GetParam().bf16 ? 0.02 : 1e-4;
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i], expected.losses[i], tolerance * expected.losses[i]) << i;
    }
    // In fp32 a pipeline changes no bit.
    const bool pipeline_alone = GetParam().parallel.dp * GetParam().parallel.tp == 1;
    if (pipeline_alone) {
      EXPECT_EQ(outcome.losses, expected.losses);
    }
  }
}

TEST_P(FrozenLayout, ResumesWithTheSameBits) {
  const Outcome straight = train(job(changes()));
  EXPECT_THAT(straight.frozen, ElementsAre(0, 1, 3, 3, 0, 2));
  for (const std::int64_t last : {0, 2, 3}) {
    SCOPED_TRACE("interrupted after step " + std::to_string(last));
    const TemporaryFolder folder;
    launcher::TrainConfig interrupted = job(changes());
    interrupted.checkpoint = folder.path();
    const Outcome first = train(interrupted, last);
    const auto path = folder / launcher::checkpoint_folder_name(last + 1);
    EXPECT_EQ(launcher::read_manifest(path).frozen_blocks, straight.frozen[static_cast<std::size_t>(last)]);
    const Outcome second = train(interrupted);
    std::vector<double> losses = first.losses;
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    EXPECT_EQ(losses, straight.losses);
    for (const auto& [rank, values] : straight.values) EXPECT_TRUE(at::equal(second.values.at(rank), values)) << rank;
  }
}

TEST_P(FrozenLayout, LeavesFrozenParametersAsTheyAre) {
  launcher::TrainConfig config = job({{0, 2}});
  const Outcome outcome = train(config);
  config.steps = 0;
  const Outcome initial = train(config);
  int frozen = 0;
  for (const auto& [name, weight] : outcome.weights) {
    const bool excluded = name == "model.embed_tokens.weight" || name.starts_with("model.layers.0.") ||
                          name.starts_with("model.layers.1.");
    frozen += excluded ? 1 : 0;
    EXPECT_EQ(at::equal(weight, initial.weights.at(name)), excluded) << name;
  }
  EXPECT_EQ(frozen, 1 + 2 * 9);
}

INSTANTIATE_TEST_SUITE_P(Jobs, FrozenLayout,
                         testing::Values(FrozenCase{{}}, FrozenCase{{}, "gpipe", false, true}, FrozenCase{{.pp = 2}},
                                         FrozenCase{{.pp = 4}}, FrozenCase{{.pp = 4}, "zb-h1"},
                                         FrozenCase{{.pp = 2, .chunks = 2}, "interleaved"}, FrozenCase{{.dp = 2}},
                                         FrozenCase{{.dp = 2}, "1f1b", true}, FrozenCase{{.dp = 2}, "1f1b", true, true},
                                         FrozenCase{{.dp = 3}, "1f1b", true},
                                         FrozenCase{{.pp = 2, .dp = 2}, "zb-h1", true},
                                         FrozenCase{{.pp = 2, .dp = 2, .tp = 2}, "1f1b", true, true}));

TEST(FrozenTraining, HasGradientsOfTrainedParametersAlone) {
  const Outcome all = train(frozen_job({.pp = 2}, 0));
  const Outcome frozen = train(frozen_job({.pp = 2}, 2));  // the first stage of two, and the tied output matrix
  EXPECT_GT(all.gradient_elements.at(0), 0);
  EXPECT_EQ(frozen.gradient_elements.at(0), 0);
  EXPECT_LE(frozen.gradient_elements.at(1), all.gradient_elements.at(1) - 256 * 32 + 64);  // rounded up
}

TEST(FrozenTraining, TakesUpACheckpointThatWasWrittenWithoutFreezing) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = small_job({.pp = 2});
  config.checkpoint = folder.path();
  const Outcome first = train(config, 2);
  config.freeze.prefixes = {{0, 2}};
  const Outcome second = train(config);
  EXPECT_EQ(second.first_step, 3);
  EXPECT_THAT(second.frozen, Each(2));
  EXPECT_TRUE(at::equal(second.weights.at("model.embed_tokens.weight"), first.weights.at("model.embed_tokens.weight")));
}

/// A job whose controller freezes a block every few steps, as nothing is held against it.
class ControlledFreezing : public testing::TestWithParam<FrozenCase> {
 protected:
  void SetUp() override { dataset::write_synthetic_corpus(folder_ / "held-out.bin", 3000, 77); }

  [[nodiscard]] launcher::TrainConfig job() const {
    launcher::TrainConfig config = small_job(GetParam().parallel);
    config.schedule = GetParam().schedule;
    config.optimizer.zero1 = GetParam().zero1;
    config.bf16 = GetParam().bf16;
    // Small batches and short memories, so that noise decides which blocks seem calm.
    config.optimizer.beta1 = 0;
    config.optimizer.beta2 = 0.5;
    config.model = tiny_gpt2();
    config.model.vocabulary = 256;
    config.model.layers = 4;
    config.microbatches = 1;
    config.optimizer.learning_rate = 1e-3;
    config.steps = 40;
    launcher::FreezeControllerConfig controller;
    controller.held_out = {folder_ / "held-out.bin"};
    controller.options = {
        .cap = 0.75, .dwell_windows = 1, .steady_windows = 1, .steady_drift = 10, .loss_margin = 1e-4};
    controller.window_steps = 2;
    controller.rewarm_steps = 4;
    controller.log = folder_ / "freezing.jsonl";
    controller.most_blocks = 3;
    config.freeze.controller = controller;
    return config;
  }
  [[nodiscard]] std::vector<adapt::ChangeRecord> records() const {
    return adapt::read_change_records(read_file(folder_ / "freezing.jsonl"), "freezing.jsonl");
  }

  TemporaryFolder folder_;
};

TEST_P(ControlledFreezing, FollowsWhatItsRecordReplaysTo) {
  int changes = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    launcher::TrainConfig config = job();
    config.seed = seed;
    const Outcome outcome = train(config);
    const std::vector<adapt::ChangeRecord> found = records();
    ASSERT_EQ(found.size(), 1U);
    const std::vector<std::vector<adapt::ChangeDecision>> replayed = replay(found.front());
    ASSERT_EQ(replayed.size(), 20U);
    std::int64_t blocks = 0;
    for (std::size_t window = 0; window < replayed.size(); ++window) {
      EXPECT_EQ(replayed[window], found.front().steps[window].decisions);
      for (const adapt::ChangeDecision& decision : replayed[window]) blocks = decision.configuration.frozen_blocks;
      changes += static_cast<int>(replayed[window].size());
      // In effect from the next step on.
      const auto next = static_cast<std::size_t>(found.front().steps[window].iteration.steps_done);
      if (next < outcome.frozen.size()) {
        EXPECT_EQ(outcome.frozen[next], blocks);
      }
    }
  }
  EXPECT_GE(changes, 1) << "nothing was tested";
}

TEST_P(ControlledFreezing, ObservesWhatOneProcessDoes) {
  launcher::TrainConfig config = job();
  config.steps = 2;
  config.microbatch_size = 4;  // the held-out quarter is as many sequences on two replicas as in one process
  train(config);
  const adapt::freezing::Observation seen = records().front().steps.front().window.value();
  config.microbatches *= config.parallel.dp;
  config.parallel = {};
  config.schedule = "1f1b";
  config.optimizer.zero1 = false;
  train(config);
  const adapt::freezing::Observation expected = records().front().steps.front().window.value();
  const double tolerance = GetParam().bf16 ? 0.05 : 1e-3;
  EXPECT_NEAR(seen.held_out_loss, expected.held_out_loss, tolerance * expected.held_out_loss);
  for (std::size_t block = 0; block < 4; ++block) {
    EXPECT_NEAR(seen.gradients[block], expected.gradients[block], tolerance * expected.gradients[block]);
    EXPECT_NEAR(seen.drifts[block], expected.drifts[block], tolerance * expected.drifts[block]);
    EXPECT_GT(expected.gradients[block], 0);
  }
}

TEST_P(ControlledFreezing, ResumesWithTheSameBits) {
  launcher::TrainConfig config = job();
  const Outcome straight = train(config);
  const std::vector<adapt::ChangeRecord> expected = records();
  for (const std::int64_t last : {4, 11}) {  // within a window and at the end of one
    SCOPED_TRACE("interrupted after step " + std::to_string(last));
    const TemporaryFolder checkpoints;
    config.checkpoint = checkpoints.path();
    std::vector<double> losses = train(config, last).losses;
    const Outcome second = train(config);
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    EXPECT_EQ(losses, straight.losses);
    for (const auto& [rank, values] : straight.values) EXPECT_TRUE(at::equal(second.values.at(rank), values)) << rank;
    const std::vector<adapt::ChangeRecord> found = records();
    ASSERT_EQ(found.size(), 2U);
    std::vector<std::vector<adapt::ChangeDecision>> decisions;
    for (const adapt::ChangeRecord& record : found) {
      for (const adapt::ChangeStep& step : record.steps) decisions.push_back(step.decisions);
    }
    EXPECT_EQ(decisions, replay(expected.front()));
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, ControlledFreezing,
                         testing::Values(FrozenCase{{}}, FrozenCase{{.pp = 2}, "zb-h1"},
                                         FrozenCase{{.dp = 2}, "1f1b", true},
                                         FrozenCase{{.pp = 2, .dp = 2}, "1f1b", true, true}));

}  // namespace
}  // namespace lowgear::trainer

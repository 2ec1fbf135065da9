#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/core/temporary_folder.h"
#include "training/dataset/synthetic_corpus.h"
#include "training/dataset/token_file.h"
#include "training/trainer/autograd_training.h"
#include "training/trainer/family_models.h"
#include "training/trainer/model/norm_and_loss.h"
#include "training/trainer/reference_model.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

class MaskedTraining : public testing::Test {
 protected:
  /// A text of bytes, in which the tokens do not count that `marked` says.
  void write(const std::function<bool(std::size_t)>& marked) {
    dataset::SyntheticCorpus corpus(3);
    std::vector<std::int64_t> tokens;
    while (tokens.size() < 4000) {
      for (const std::int64_t id : dataset::byte_ids(corpus.next_sentence())) {
        tokens.push_back(marked(tokens.size()) ? ~id : id);
      }
    }
    dataset::TokenFileWriter writer(file(), dataset::TokenType::uint32, dataset::Marks::some);
    writer.append(tokens);
    writer.commit();
  }
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "text.bin"; }
  [[nodiscard]] launcher::TrainConfig job(const protocol::JobParallel& parallel = {}) const {
    launcher::TrainConfig config = small_job(parallel);
    config.synthetic_tokens = 0;
    config.tokens = {file()};
    return config;
  }

  TemporaryFolder folder_;
};

/// Stretches of different length, so that microbatches differ in the number of tokens that count.
bool is_prompt(std::size_t token) { return token % 61 < 35; }

TEST_F(MaskedTraining, WithoutMarkedTokensHasTheBitsOfPlainText) {
  write([](std::size_t) { return false; });
  const Outcome marked = train(job({.pp = 2}));
  dataset::TokenFileWriter writer(folder_ / "plain.bin", dataset::TokenType::uint16);
  const dataset::TokenFile text = dataset::TokenFile::open(file(), 256);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(text.token_count()));
  text.read(0, tokens);
  writer.append(tokens);
  writer.commit();
  launcher::TrainConfig plain = job({.pp = 2});
  plain.tokens = {folder_ / "plain.bin"};
  EXPECT_EQ(train(plain).losses, marked.losses);
}

TEST_F(MaskedTraining, HasTheLossAndTheGradientsOfTheTokensThatCount) {
  write(is_prompt);
  launcher::TrainConfig config = job();
  config.steps = 1;
  const NamedParameters initial = initial_parameters(config);
  std::map<std::string, at::Tensor> leaves;
  for (const auto& [name, value] : initial.values) leaves[name] = value.detach().clone().requires_grad_(true);
  at::Tensor sum = at::zeros({});
  std::int64_t counted = 0;
  for (const Microbatch& microbatch : TrainingData(config).batch(0, 0, at::kCPU).microbatches) {
    EXPECT_GE(microbatch.ids.min().item<std::int64_t>(), 0);
    const auto here = microbatch.targets.ne(kNoTarget).sum().item<std::int64_t>();
    if (here == 0) continue;  // the mean over no targets is no number
    counted += here;
    // Its mean is over the targets that are not -100.
    sum = sum + reference_loss(config.model, leaves, microbatch.ids, microbatch.targets) * here;
  }
  ASSERT_LT(counted, config.tokens_per_step());
  const at::Tensor loss = sum / counted;
  torch::autograd::backward({loss}, {});
  double squares = 0;
  for (const auto& [name, leaf] : leaves) squares += leaf.grad().to(at::kDouble).square().sum().item<double>();
  for (const protocol::JobParallel& parallel :
       {protocol::JobParallel{}, protocol::JobParallel{.pp = 2}, protocol::JobParallel{.tp = 2}}) {
    launcher::TrainConfig same = job(parallel);
    same.steps = 1;
    const Outcome outcome = train(same);
    EXPECT_NEAR(outcome.losses.at(0), loss.item<double>(), 1e-5) << parallel.pp << parallel.tp;
    EXPECT_NEAR(outcome.gradient_norms.at(0), std::sqrt(squares), 1e-5 * std::sqrt(squares));
  }
}

TEST_F(MaskedTraining, IsTheSameInEveryLayout) {
  write(is_prompt);
  const Outcome expected = train(job());
  EXPECT_EQ(train(job({.pp = 4})).losses, expected.losses);
  for (const protocol::JobParallel& parallel : {protocol::JobParallel{.dp = 2}, protocol::JobParallel{.tp = 2}}) {
    launcher::TrainConfig config = job(parallel);
    config.microbatches = 4 / parallel.dp;
    const Outcome outcome = train(config);
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i], expected.losses[i], 1e-4) << parallel.dp << " step " << i;
    }
  }
}

TEST_F(MaskedTraining, MeasuresTheHeldOutLossOfTheTokensThatCount) {
  write(is_prompt);
  launcher::TrainConfig config = job({.pp = 2});
  config.optimizer.learning_rate = 0;
  config.steps = 1;
  config.evaluation.emplace().held_out = {file()};
  const Outcome outcome = train(config);
  EXPECT_NEAR(outcome.held_out_losses.at(0), outcome.losses.at(0), 1e-6);
}

/// Of tokens that count and others alike.
TEST_F(MaskedTraining, BalancesExpertsOverAllTokens) {
  const auto balance_of = [this](const std::function<bool(std::size_t)>& marked) {
    write(marked);
    launcher::TrainConfig config = job({.pp = 2});
    config.steps = 1;
    config.model = std::ranges::find(family_models(), "mixtral", &FamilyModel::name)->read();
    config.model.vocabulary = 256;
    const double with = train(config).losses.at(0);
    config.model.balance_weight = 0;
    return with - train(config).losses.at(0);
  };
  const double balance = balance_of([](std::size_t) { return false; });
  // Its weight times the number of experts of a token, as new routers give all experts nearly the same probability.
  EXPECT_NEAR(balance, 0.2 * 2, 0.01);
  EXPECT_NEAR(balance_of(is_prompt), balance, 1e-5);
}

TEST_F(MaskedTraining, LearnsNothingFromAStepInWhichNoTokenCounts) {
  write([](std::size_t) { return true; });
  launcher::TrainConfig config = job({.pp = 2});
  config.steps = 1;
  const Outcome outcome = train(config);
  EXPECT_EQ(outcome.losses.at(0), 0);
  EXPECT_EQ(outcome.gradient_norms.at(0), 0);
}

}  // namespace
}  // namespace lowgear::trainer

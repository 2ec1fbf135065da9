#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/test_models.h"
#include "training/trainer/thread_training.h"
#include "training/trainer/transport/in_process_transport.h"

namespace lowgear::trainer {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

model::ModelConfig tiny_untied_llama() { return tiny_llama(); }

model::ModelConfig tiny_alibi() {
  model::ModelConfig config = tiny_llama();
  config.positions = model::PositionKind::alibi;
  return config;
}

model::ModelConfig tiny_windowed() {
  model::ModelConfig config = tiny_llama();
  config.window = 3;
  config.windowed.assign(static_cast<std::size_t>(config.layers), true);
  return config;
}

/// Loss and gradients of one batch of a whole model.
struct BatchResult {
  double loss = 0;
  at::Tensor gradients;
};

BatchResult run_batch(const model::ModelConfig& config, launcher::Recompute recompute,
                      const std::vector<Microbatch>& microbatches) {
  InProcessHub hub;
  Communicators ranks;
  ranks.tensor = hub.group("tp", 0, 1);
  const std::vector<model::LayerRange> whole = {{0, config.layers}};
  ModelPart part(config, whole, {0}, {.recompute = recompute}, ranks);
  initialize(part.store(), config.layers, 1);
  Stage& stage = *part.stages().at(0);
  std::int64_t tokens = 0;
  for (const Microbatch& batch : microbatches) tokens += batch.ids.numel();
  BatchResult result;
  for (const Microbatch& batch : microbatches) {
    const double share = static_cast<double>(batch.ids.numel()) / static_cast<double>(tokens);
    result.loss += share * stage.forward(0, batch).at(0).item<double>();
    (void)stage.backward(0, {at::full({}, share)}, WeightGradients::now);
  }
  result.gradients = part.store().gradients().clone();
  return result;
}

class PackedDocuments : public testing::TestWithParam<model::ModelConfig (*)()> {};

TEST_P(PackedDocuments, AreComputedAsIfEachWereAlone) {
  const model::ModelConfig config = GetParam()();
  const std::vector<std::int64_t> lengths{5, 1, 11, 7};
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  auto generator = at::detail::createCPUGenerator(3);
  const at::Tensor ids = at::randint(0, config.vocabulary, {1, tokens}, generator, at::kLong);
  const at::Tensor targets = at::randint(0, config.vocabulary, {1, tokens}, generator, at::kLong);
  std::vector<Microbatch> alone;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    const auto part = [&](const at::Tensor& all) { return all.narrow(1, begin, length).contiguous(); };
    alone.push_back({.ids = part(ids), .targets = part(targets)});
    begin += length;
  }
  const BatchResult expected = run_batch(config, launcher::Recompute::none, alone);
  const double largest = expected.gradients.abs().max().item<double>();
  for (const launcher::Recompute recompute :
       {launcher::Recompute::none, launcher::Recompute::attention, launcher::Recompute::full}) {
    const BatchResult packed = run_batch(config, recompute, {{.ids = ids, .targets = targets, .documents = lengths}});
    EXPECT_NEAR(packed.loss, expected.loss, 1e-5);
    EXPECT_LE((packed.gradients - expected.gradients).abs().max().item<double>(), 1e-5 * largest);
  }
  const BatchResult as_one = run_batch(config, launcher::Recompute::none, {{ids, targets}});
  EXPECT_GT(std::abs(as_one.loss - expected.loss), 1e-4) << "attention sees other documents";
}

INSTANTIATE_TEST_SUITE_P(Positions, PackedDocuments,
                         testing::Values(tiny_untied_llama, tiny_gpt2, tiny_alibi, tiny_windowed));

launcher::TrainConfig job_with_documents(const protocol::JobParallel& parallel) {
  launcher::TrainConfig config = small_job(parallel);
  config.document_end = ' ';
  config.microbatch_size = 2;
  config.microbatches /= parallel.dp;
  return config;
}

TEST(TrainingOnDocuments, HasTheSameBitsInEveryPipeline) {
  const Outcome expected = train(job_with_documents({}));
  EXPECT_EQ(train(job_with_documents({.pp = 2})).losses, expected.losses);
  launcher::TrainConfig recomputing = job_with_documents({.pp = 2});
  for (const launcher::Recompute recompute : {launcher::Recompute::attention, launcher::Recompute::full}) {
    recomputing.recompute = recompute;
    EXPECT_EQ(train(recomputing).losses, expected.losses);
  }
  const std::vector<double> replicas = train(job_with_documents({.pp = 1, .dp = 2})).losses;
  ASSERT_THAT(replicas, SizeIs(expected.losses.size()));
  for (std::size_t i = 0; i < replicas.size(); ++i) EXPECT_NEAR(replicas[i], expected.losses[i], 1e-5);
  launcher::TrainConfig whole = job_with_documents({});
  whole.document_end.reset();
  EXPECT_NE(train(whole).losses.front(), expected.losses.front());
}

/// What every rank computes of all replicas is what each replica then trains on.
TEST(TrainingOnDocuments, AmountsOfAStepAreThoseOfItsMicrobatches) {
  const launcher::TrainConfig config = job_with_documents({.pp = 1, .dp = 2});
  const TrainingData data(config);
  const std::vector<steps::Amounts> amounts = data.amounts(3);
  ASSERT_THAT(amounts, SizeIs(2 * config.microbatches));
  std::size_t place = 0;
  for (int replica = 0; replica < 2; ++replica) {
    const StepBatch batch = data.batch(3, replica, at::kCPU, TrainingData::Lengths::of_all_replicas);
    EXPECT_EQ(batch.amounts, amounts);
    for (const Microbatch& microbatch : batch.microbatches) {
      EXPECT_THAT(microbatch.ids.sizes(), ElementsAre(1, 32));
      double tokens = 0, squares = 0;
      std::int64_t begin = 0;
      for (const std::int64_t length : microbatch.documents) {
        tokens += static_cast<double>(length);
        squares += static_cast<double>(length * length);
        begin += length;
        const bool is_end = microbatch.ids[0][begin - 1].item<std::int64_t>() == ' ';
        EXPECT_TRUE(is_end || begin % 16 == 0) << "a document ends with its token or its sequence";
      }
      EXPECT_EQ(amounts[place], (steps::Amounts{tokens, squares}));
      EXPECT_EQ(tokens, 32);
      ++place;
    }
  }
}

}  // namespace
}  // namespace lowgear::trainer

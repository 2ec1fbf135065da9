#include "training/trainer/measuring/activation_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/temporary_folder.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/test_models.h"
#include "training/trainer/thread_job.h"
#include "training/trainer/thread_ranks.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {

namespace {

constexpr std::int64_t kPositions = 12;
constexpr std::int64_t kFloatBytes = sizeof(float);

/// Counts what libtorch's allocator has given out while a Counting lives: independent of what that reports.
class CountingAllocator final : public at::Allocator {
 public:
  explicit CountingAllocator(at::Allocator* inner) : inner_(inner) {}

#if TORCH_VERSION_MAJOR >= 2
  at::DataPtr allocate(std::size_t bytes) override { return counted(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
#else
  at::DataPtr allocate(std::size_t bytes) const override { return counted(bytes); }
#endif
  at::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::free_block; }
  [[nodiscard]] static std::int64_t live_bytes() {
    const std::scoped_lock lock(held().mutex);
    return held().live_bytes;
  }

 private:
  struct Block {
    at::DataPtr data;
    std::int64_t bytes = 0;
  };
  struct Held {
    std::mutex mutex;
    std::map<void*, Block> blocks;
    std::int64_t live_bytes = 0;
  };

  /// Never destroyed: blocks may outlive everything else.
  static Held& held() {
    static auto* const kHeld = new Held;
    return *kHeld;
  }
  [[nodiscard]] at::DataPtr counted(std::size_t bytes) const {
    at::DataPtr data = inner_->allocate(bytes);
    void* const address = data.get();
    const std::scoped_lock lock(held().mutex);
    if (address != nullptr) held().blocks[address] = {std::move(data), static_cast<std::int64_t>(bytes)};
    held().live_bytes += static_cast<std::int64_t>(bytes);
    return {address, address, &CountingAllocator::free_block, at::kCPU};
  }
  static void free_block(void* address) {
    Block freed;  // after the lock
    const std::scoped_lock lock(held().mutex);
    freed = std::move(held().blocks.extract(address).mapped());
    held().live_bytes -= freed.bytes;
  }

  at::Allocator* inner_;
};

/// Has all of this process counted.
class Counting {
 public:
  Counting() {
    static CountingAllocator allocator(usual_);
    c10::SetAllocator(at::kCPU, &allocator, /*priority=*/1);
  }
  ~Counting() { c10::SetAllocator(at::kCPU, usual_, /*priority=*/1); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  at::Allocator* usual_ = c10::GetAllocator(at::kCPU);
};

/// A group of tensor-parallel ranks of which the others give nothing: what this one holds is what it would hold with
/// them.
class LoneMember final : public Collective {
 public:
  explicit LoneMember(int size) : size_(size) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return size_; }
  std::unique_ptr<PendingTransfer> start_all_reduce(const at::Tensor& /*tensor*/, Reduction /*reduction*/) override {
    return std::make_unique<Done>();
  }
  std::unique_ptr<PendingTransfer> start_reduce(const at::Tensor& /*tensor*/, int /*root*/) override {
    return std::make_unique<Done>();
  }
  void all_gather(const at::Tensor& /*all*/, const at::Tensor& /*part*/) override {}
  void reduce_scatter(const at::Tensor& /*part*/, const at::Tensor& /*all*/) override {}
  void broadcast(const at::Tensor& /*tensor*/, int /*root*/) override {}

 private:
  struct Done final : PendingTransfer {
    void wait() override {}
  };

  int size_;
};

std::int64_t measured(at::Device device, const std::function<at::Tensor()>& forward) {
  ActivationMeter meter(device);
  meter.start(1);
  meter.forward_begins(0);
  const at::Tensor output = forward();
  meter.forward_ended(0, 0);
  return meter.bytes_by_stage().at(0);
}

TEST(ActivationMeter, CountsWhatAutogradSavesOfAModuleOfKnownSizes) {
  const at::Tensor input = at::ones({10, 100}).requires_grad_(true);
  const std::int64_t tensor_bytes = 1000 * kFloatBytes;
  // exp and tanh save their results.
  EXPECT_EQ(measured(at::kCPU, [&] { return input.exp().tanh(); }), 2 * tensor_bytes);
  const torch::autograd::AutoGradMode no_gradient(false);
  EXPECT_EQ(measured(at::kCPU, [&] { return input.exp().tanh(); }), tensor_bytes) << "the output alone";
}

TEST(ActivationMeter, CountsNothingOfOtherThreadsOtherDevicesAndOlderBlocks) {
  at::Tensor older = at::ones({1 << 16});
  std::vector<at::Tensor> elsewhere;
  const auto forward = [&] {
    older = at::Tensor();
    std::thread([&] { elsewhere.push_back(at::ones({500})); }).join();
    return at::ones({25});
  };
  EXPECT_EQ(measured(at::kCPU, forward), 25 * kFloatBytes);
  EXPECT_EQ(measured(at::Device(at::kCUDA, 0), forward), 0);
}

TEST(ActivationMeter, LeavesOutTheFirstForwardOfSeveralAndTakesTheMedianOfTheOthers) {
  ActivationMeter meter(at::kCPU);
  std::vector<at::Tensor> kept;
  const auto forward = [&](int stage, std::int64_t elements, std::int64_t received_bytes) {
    meter.forward_begins(stage);
    kept.push_back(at::ones({elements}));
    meter.forward_ended(stage, received_bytes);
  };
  forward(0, 999, 0);  // not started
  meter.start(4);
  forward(0, 1000, 0);
  forward(1, 1000, 0);
  forward(0, 10, 5);
  forward(0, 900, 5);
  forward(0, 20, 5);
  forward(1, 40, 0);
  forward(1, 30, 0);
  const std::map<int, std::int64_t> medians{{0, 20 * kFloatBytes + 5}, {1, 30 * kFloatBytes}};
  EXPECT_EQ(meter.bytes_by_stage(), medians);
  meter.stop();
  forward(0, 999, 0);
  EXPECT_EQ(meter.bytes_by_stage(), medians);
  meter.start(1);
  EXPECT_TRUE(meter.bytes_by_stage().empty());
}

TEST(ActivationMeter, ForgetsAForwardThatFailed) {
  ActivationMeter meter(at::kCPU);
  meter.start(1);
  meter.forward_begins(0);
  const at::Tensor lost = at::ones({1000});
  meter.start(1);
  meter.forward_begins(0);
  const at::Tensor kept = at::ones({10});
  meter.forward_ended(0, 0);
  EXPECT_EQ(meter.bytes_by_stage().at(0), 10 * kFloatBytes);
}

/// A stage of a model in three stages, and how it runs.
struct StageCase {
  model::ModelConfig config;
  int stage = 1;
  std::int64_t blocks = 2;
  std::int64_t batch = 2;
  launcher::Recompute recompute = launcher::Recompute::none;
  std::int64_t frozen_blocks = 0;
  int tensor_ranks = 1;
};

/// Of one microbatch, from its forward to its backward.
struct HeldBytes {
  std::int64_t metered = 0;
  std::int64_t allocated = 0;
  std::int64_t allocated_afterwards = 0;  ///< once its backward is done
};

HeldBytes held_bytes(const StageCase& of) {
  const Counting counting;
  HeldBytes held;
  run_thread_ranks({}, [&](int /*rank*/, Communicators ranks) {
    ranks.tensor = std::make_unique<LoneMember>(of.tensor_ranks);
    model::ModelConfig config = of.config;
    config.layers = 2 + of.blocks;
    const std::int64_t begin = of.stage;
    std::vector<model::LayerRange> partition;
    for (int stage = 0; stage < 3; ++stage) {
      const std::int64_t from = stage == 0 ? 0 : partition.back().end;
      partition.push_back({from, from + (stage == begin ? of.blocks : 1)});
    }
    ModelPart part(config, partition, {of.stage}, {.recompute = of.recompute, .frozen_blocks = of.frozen_blocks},
                   ranks);
    initialize(part.store(), config.layers, 1);
    Stage& stage = *part.stages().at(of.stage);
    const at::Tensor ids = at::zeros({of.batch, kPositions}, at::kLong);
    const at::Tensor gradient = of.stage == 2 ? at::ones({}) : at::ones({of.batch, kPositions, config.hidden});
    ActivationMeter meter(at::kCPU);
    const auto forward = [&] {
      std::vector<at::Tensor> input;
      if (of.stage > 0) input.push_back(at::ones({of.batch, kPositions, config.hidden}));
      meter.forward_begins(of.stage);
      (void)stage.forward(0, {ids, ids}, input);
      meter.forward_ended(of.stage, stage.kept_input_bytes(0));
    };
    // Once before: what all microbatches share.
    forward();
    (void)stage.backward(0, {gradient}, WeightGradients::now);
    meter.start(1);
    const std::int64_t before = CountingAllocator::live_bytes();
    forward();
    held.metered = meter.bytes_by_stage().at(of.stage);
    held.allocated = CountingAllocator::live_bytes() - before;
    (void)stage.backward(0, {gradient}, WeightGradients::now);
    held.allocated_afterwards = CountingAllocator::live_bytes() - before;
  });
  return held;
}

TEST(ActivationMeter, AgreesWithTheAllocatorOnEveryStage) {
  for (const model::ModelConfig& config : {tiny_llama(), tiny_gpt2()}) {
    for (const launcher::Recompute recompute : kRecomputes) {
      for (const int stage : {0, 1, 2}) {
        model::ModelConfig untied = config;
        untied.tied_embeddings = false;
        const HeldBytes held = held_bytes({.config = untied, .stage = stage, .recompute = recompute});
        const std::string what = "stage " + std::to_string(stage) + ", recompute " + std::string(name(recompute));
        EXPECT_EQ(held.metered, held.allocated) << what;
        EXPECT_EQ(held.allocated_afterwards, 0) << what << ": a backward gives all of it back";
      }
    }
  }
}

TEST(ActivationMeter, AgreesWithTheAllocatorWhereTheStagesFirstBlocksAreFrozen) {
  const HeldBytes trained = held_bytes({.config = tiny_llama(), .stage = 1, .blocks = 3});
  const HeldBytes held = held_bytes({.config = tiny_llama(), .stage = 1, .blocks = 3, .frozen_blocks = 3});
  EXPECT_EQ(held.metered, held.allocated);
  EXPECT_LT(held.metered, trained.metered) << "nothing is kept of a frozen block";
}

TEST(ActivationMeter, CountsTheInputsOfLayersWhereTheyAreComputedAgain) {
  for (const int stage : {0, 1}) {
    for (const std::int64_t blocks : {1, 2, 5}) {
      for (const std::int64_t batch : {1, 3}) {
        const HeldBytes held = held_bytes({.config = tiny_llama(),
                                           .stage = stage,
                                           .blocks = blocks,
                                           .batch = batch,
                                           .recompute = launcher::Recompute::full});
        // What enters each block, and what leaves the last one.
        EXPECT_EQ(held.metered, (blocks + 1) * batch * kPositions * tiny_llama().hidden * kFloatBytes);
      }
    }
  }
}

TEST(ActivationMeter, CountsOfAnAttentionThatIsComputedAgainTheSumThatEntersItsNorm) {
  const model::ModelConfig config = tiny_gpt2();
  const auto metered = [&config](std::int64_t blocks) {
    return held_bytes({.config = config, .blocks = blocks, .recompute = launcher::Recompute::attention}).metered;
  };
  // Sums before both norms, mean and deviation of the second, and what enters the MLP, its activation and its output.
  const std::int64_t of_token = 2 * config.hidden + 2 + config.hidden + 2 * config.intermediate;
  EXPECT_EQ(metered(3) - metered(2), 2 * kPositions * of_token * kFloatBytes);
}

TEST(ActivationMeter, CountsWhatOneOfTensorParallelRanksHolds) {
  const StageCase alone{.config = tiny_llama()};
  StageCase shared = alone;
  shared.tensor_ranks = 2;
  const HeldBytes held = held_bytes(shared);
  EXPECT_EQ(held.metered, held.allocated);
  EXPECT_LT(held.metered, held_bytes(alone).metered);
  EXPECT_GT(2 * held.metered, held_bytes(alone).metered) << "what is not split: norms";
  shared.recompute = launcher::Recompute::full;
  EXPECT_EQ(held_bytes(shared).metered, 3 * 2 * kPositions * tiny_llama().hidden * kFloatBytes)
      << "inputs of layers are whole on every rank";
}

TEST(ActivationMeter, GrowsInProportionToLayersAndTokens) {
  const auto metered = [](std::int64_t blocks, std::int64_t batch) {
    return held_bytes({.config = tiny_llama(), .stage = 1, .blocks = blocks, .batch = batch}).metered;
  };
  const std::int64_t block = metered(2, 2) - metered(1, 2);
  EXPECT_GT(block, 10 * 2 * kPositions * tiny_llama().hidden * kFloatBytes);
  EXPECT_EQ(metered(4, 2), metered(1, 2) + 3 * block);
  const std::int64_t sequence = metered(2, 2) - metered(2, 1);
  EXPECT_EQ(metered(2, 5), metered(2, 1) + 4 * sequence);
}

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Key;
using ::testing::SizeIs;

using ByStep = std::map<std::int64_t, std::vector<std::int64_t>>;

/// Of the small job's activations between layers, fp32.
constexpr std::int64_t kBetweenLayers = 16 * 32 * 4;

launcher::TrainConfig recomputing_job(const protocol::JobParallel& parallel) {
  launcher::TrainConfig config = small_job(parallel);
  config.recompute = launcher::Recompute::full;
  return config;
}

ByStep measured(const launcher::TrainConfig& config) { return train(config).activation_bytes; }

std::vector<std::int64_t> of_one_step(const launcher::TrainConfig& config) {
  const ByStep by_step = measured(config);
  EXPECT_THAT(by_step, ElementsAre(Key(1)));
  return by_step.at(1);
}

TEST(ActivationSteps, AreThoseOfTheRanksThatRecompute) {
  const Outcome none = train(small_job({.pp = 2}));
  const Outcome full = train(recomputing_job({.pp = 2}));
  launcher::TrainConfig config = small_job({.pp = 2});
  config.ranks_recompute = {launcher::Recompute::full, launcher::Recompute::none};
  const Outcome first = train(config);
  EXPECT_THAT(first.activation_bytes.at(1),
              ElementsAre(full.activation_bytes.at(1)[0], none.activation_bytes.at(1)[1]));
  EXPECT_LT(full.activation_bytes.at(1)[0], none.activation_bytes.at(1)[0]);
  EXPECT_EQ(first.losses, none.losses);
  config.ranks_recompute.back() = launcher::Recompute::attention;
  const Outcome both = train(config);
  EXPECT_EQ(both.activation_bytes.at(1)[0], full.activation_bytes.at(1)[0]);
  EXPECT_LT(both.activation_bytes.at(1)[1], none.activation_bytes.at(1)[1]);
  EXPECT_GT(both.activation_bytes.at(1)[1], full.activation_bytes.at(1)[1]);
  EXPECT_EQ(both.losses, none.losses);
}

TEST(ActivationSteps, AreTheSecondOne) {
  const std::vector<std::int64_t> bytes = of_one_step(recomputing_job({.pp = 2}));
  ASSERT_THAT(bytes, SizeIs(2));
  EXPECT_EQ(bytes[0], 3 * kBetweenLayers) << "what enters its two layers and what leaves them";
  EXPECT_GT(bytes[1], 3 * kBetweenLayers + 16 * 256 * 4) << "and the probabilities of the loss";
}

TEST(ActivationSteps, AreTheOnlyOneWhereThereIsNoOther) {
  launcher::TrainConfig config = recomputing_job({.pp = 2});
  config.steps = 1;
  const ByStep by_step = measured(config);
  ASSERT_THAT(by_step, ElementsAre(Key(0)));
  EXPECT_EQ(by_step.at(0)[0], 3 * kBetweenLayers);
}

TEST(ActivationSteps, MeasureEveryVirtualStageByItself) {
  launcher::TrainConfig config = recomputing_job({.pp = 2});
  config.schedule = "interleaved";
  config.parallel.chunks = 2;
  const std::vector<std::int64_t> bytes = of_one_step(config);
  ASSERT_THAT(bytes, SizeIs(4));
  EXPECT_EQ(bytes[0], 2 * kBetweenLayers);
  EXPECT_EQ(bytes[1], 2 * kBetweenLayers);
  EXPECT_EQ(bytes[2], 2 * kBetweenLayers);
}

TEST(ActivationSteps, MeasureTheSameOnReplicasWithAndWithoutZero) {
  const std::vector<std::int64_t> bytes = of_one_step(small_job({.pp = 2}));
  launcher::TrainConfig config = small_job({.pp = 2, .dp = 2});
  EXPECT_EQ(of_one_step(config), bytes);
  config.optimizer.zero1 = true;
  EXPECT_EQ(of_one_step(config), bytes);
}

TEST(ActivationSteps, AreRepeatedWhenMoreIsFrozen) {
  launcher::TrainConfig config = small_job({.pp = 2});
  config.model.tied_embeddings = false;
  config.freeze.prefixes = {{.step = 2, .blocks = 1}, {.step = 4, .blocks = 2}};
  const ByStep by_step = measured(config);
  ASSERT_THAT(by_step, ElementsAre(Key(1), Key(3), Key(5)));
  EXPECT_THAT(by_step.at(1), Each(Gt(0)));
  EXPECT_LT(by_step.at(3)[0], by_step.at(1)[0]);
  EXPECT_EQ(by_step.at(3)[1], by_step.at(1)[1]);
  EXPECT_EQ(by_step.at(5)[0], 0) << "a stage without a backward keeps nothing";
  EXPECT_LT(by_step.at(5)[1], by_step.at(1)[1]) << "its input needs no gradient";
}

TEST(NewestRankRecording, IsInTheLastPartThatHasTheRank) {
  const TemporaryFolder folder;
  EXPECT_EQ(newest_rank_recording(folder / "rec", 0), std::nullopt);
  std::filesystem::create_directories(folder / "rec/rank-00000");
  std::filesystem::create_directories(folder / "rec/rank-00003");
  std::filesystem::create_directories(folder / "rec/part-00001/rank-00003");
  std::filesystem::create_directories(folder / "rec/part-00002/rank-00003");
  EXPECT_EQ(newest_rank_recording(folder / "rec", 0), folder / "rec/rank-00000");
  EXPECT_EQ(newest_rank_recording(folder / "rec", 3), folder / "rec/part-00002/rank-00003");
}

}  // namespace

}  // namespace lowgear::trainer

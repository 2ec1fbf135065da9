#include "estimating/estimator/iteration/iteration_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "estimating/estimator/iteration/roofline_estimate.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {
namespace {

/// A job whose layers take far longer than its ends, so that stages are nearly equal.
TrainingJob job_on(int dp, int tp, int pp) {
  TrainingJob job;
  job.model = named_model("llama-2-7b");
  job.model.vocabulary = 128;
  job.gpu = named_gpu("h100-sxm");
  job.cluster = default_cluster(job.gpu);
  job.parallel.dp = dp;
  job.parallel.tp = tp;
  job.parallel.pp = pp;
  job.batch = {.global = std::int64_t{16} * dp, .micro = 1, .sequence_length = 4096};
  return job;
}

double item_s(const std::vector<CostItem>& items, std::string_view name) {
  const auto found = std::ranges::find(items, name, &CostItem::name);
  return found == items.end() ? 0 : found->cost.time_s();
}

void expect_parts_add_up(const StageEstimate& stage) {
  EXPECT_NEAR(time_s_of(stage.forward_items), stage.forward.time_s(), 1e-9);
  EXPECT_NEAR(time_s_of(stage.backward_items), stage.backward.time_s(), 1e-9);
  EXPECT_GT(stage.weight_gradient.time_s(), 0);
  EXPECT_LT(stage.weight_gradient.time_s(), stage.backward.time_s());
}

TEST(EstimateIteration, PartsAddUp) {
  for (const TrainingJob& job : {job_on(1, 1, 1), job_on(8, 2, 4), job_on(2, 8, 2)}) {
    const IterationEstimate it = estimate(job);
    EXPECT_NEAR(it.time_s, it.pipeline_s + it.gradients_s + it.optimizer_s, 1e-12);
    EXPECT_EQ(it.stages.size(), static_cast<std::size_t>(job.parallel.pp));
    for (const StageEstimate& stage : it.stages) expect_parts_add_up(stage);
    EXPECT_GT(it.error_s, 0);
    EXPECT_NEAR(it.tokens_per_s(job) * it.time_s, static_cast<double>(job.batch.global) * 4096, 1e-3);
  }
}

TEST(EstimateIteration, OneGpuHasNoBubbleAndSendsNothing) {
  const IterationEstimate it = estimate(job_on(1, 1, 1));
  EXPECT_NEAR(it.bubble_share, 0, 1e-12);
  EXPECT_EQ(it.gradients_s, 0);
  EXPECT_EQ(it.stages[0].forward.link_bytes, 0);
  EXPECT_NEAR(it.pipeline_s, 16 * (it.stages[0].forward + it.stages[0].backward).time_s(), 1e-9);
}

TEST(EstimateIteration, HasTheBubbleOfNearlyEqualStages) {
  for (const int pp : {2, 4, 8}) {
    TrainingJob job = job_on(1, 1, pp);
    EXPECT_NEAR(estimate(job).bubble_share, (pp - 1.0) / (16 + pp - 1), 0.03) << pp;
  }
}

TEST(EstimateIteration, InterleavingShrinksTheBubble) {
  TrainingJob job = job_on(1, 1, 4);
  const double plain = estimate(job).bubble_share;
  job.parallel.virtual_stages = 4;
  job.schedule = "interleaved";
  const IterationEstimate it = estimate(job);
  EXPECT_EQ(it.stages.size(), 16U);
  EXPECT_LT(it.bubble_share, 0.5 * plain);
}

/// The data sheet's costs, but for whole mixtures of experts: 10 ms forward, 25 backward.
class SampledExperts final : public OperatorCosts {
 public:
  explicit SampledExperts(const GpuModel& gpu) : data_sheet_(gpu) {}
  [[nodiscard]] WorkCost cost(const Operator& op) const override { return data_sheet_.cost(op); }
  [[nodiscard]] std::optional<WorkCost> cost_of_whole(const Operator& whole) const override {
    return WorkCost{.core_s = whole.pass == Pass::forward ? 10e-3 : 25e-3, .error_s = 1e-3};
  }

 private:
  RooflineCosts data_sheet_;
};

TEST(EstimateIteration, ExpertsTakeTheTimeOfTheirSamples) {
  TrainingJob job = job_on(1, 1, 1);
  job.model = named_model("mixtral-8x7b");
  job.recompute = Recompute::full;
  const IterationEstimate parts = estimate(job);
  const IterationEstimate whole = estimate_iteration(job, {SampledExperts(job.gpu), LinkCosts(job.cluster)});
  const auto layers = static_cast<double>(job.model.layers);
  const StageEstimate& before = parts.stages[0];
  const StageEstimate& after = whole.stages[0];
  EXPECT_NEAR(item_s(after.forward_items, "experts"), layers * 10e-3, 1e-9);
  EXPECT_NEAR(item_s(after.backward_items, "experts"), layers * 25e-3, 1e-9);
  const double recomputed_s =
      item_s(before.backward_items, "recomputation") - item_s(before.forward_items, "experts") + layers * 10e-3;
  EXPECT_NEAR(item_s(after.backward_items, "recomputation"), recomputed_s, 1e-9);
  EXPECT_DOUBLE_EQ(after.forward.flops, before.forward.flops);
  EXPECT_NEAR(item_s(after.forward_items, "linear"), item_s(before.forward_items, "linear"), 1e-12);
  expect_parts_add_up(after);
}

TEST(EstimateIteration, RecomputationAddsAForward) {
  TrainingJob job = job_on(1, 1, 1);
  const IterationEstimate none = estimate(job);
  job.recompute = Recompute::full;
  const IterationEstimate full = estimate(job);
  const double layers_s = full.stages[0].backward.time_s() - none.stages[0].backward.time_s();
  EXPECT_NEAR(layers_s, item_s(full.stages[0].backward_items, "recomputation"), 1e-9);
  EXPECT_NEAR(layers_s, none.stages[0].forward.time_s(), 0.02 * layers_s);
  EXPECT_LT(full.model_flops_per_gpu_s, none.model_flops_per_gpu_s);
}

TEST(EstimateIteration, ShardingDividesTheUpdateAmongReplicas) {
  TrainingJob job = job_on(8, 1, 1);
  job.overlap.gradients = false;
  job.zero = 0;
  const IterationEstimate whole = estimate(job);
  job.zero = 1;
  const IterationEstimate sharded = estimate(job);
  EXPECT_LT(sharded.optimizer_s, whole.optimizer_s);
  EXPECT_NEAR(sharded.gradients_s, whole.gradients_s / 2, 0.05 * whole.gradients_s);  // scatters, then gathers weights
  job.zero = 3;
  const IterationEstimate fully = estimate(job);
  EXPECT_EQ(fully.gradients_s, 0);
  EXPECT_GT(fully.stages[0].forward.link_bytes, 0);
}

TEST(EstimateIteration, ShardedGradientsAreSummedForEveryMicrobatch) {
  TrainingJob job = job_on(8, 1, 1);
  job.overlap.gradients = false;
  job.zero = 2;
  const IterationEstimate sharded = estimate(job);
  EXPECT_EQ(sharded.gradients_s, 0);
  const double each_s = item_s(sharded.stages[0].backward_items, "sharded gradients");
  job.zero = 1;
  const IterationEstimate summed = estimate(job);
  ASSERT_GT(job.microbatches(), 1);
  EXPECT_NEAR(each_s, summed.gradients_s, 0.2 * summed.gradients_s);
  const auto sums = static_cast<double>(job.microbatches());
  EXPECT_NEAR(sharded.time_s - summed.time_s, (sums - 1) * each_s, 0.2 * sums * each_s);
}

TEST(EstimateIteration, GroupsWithinANodeGatherFasterAndUpdateMore) {
  TrainingJob job = job_on(32, 1, 1);
  job.cluster.inter_node.bytes_per_s = 5e9;
  job.overlap.gradients = false;
  job.zero = 3;
  const IterationEstimate all = estimate(job);
  job.shard_size = 8;
  const IterationEstimate groups = estimate(job);
  EXPECT_LT(item_s(groups.stages[0].forward_items, "sharded weights"),
            0.3 * item_s(all.stages[0].forward_items, "sharded weights"))
      << "over NVLink, not over the network";
  EXPECT_NEAR(groups.optimizer_s, 4 * all.optimizer_s, 0.01 * groups.optimizer_s);
  job.zero = 1;
  const LinkCosts links(job.cluster);
  const double bytes = 4 * parameters_of_ranks(job).front();
  EXPECT_NEAR(estimate(job).gradients_s,
              links.cost(CollectiveKind::reduce_scatter, bytes, {8, 8}).link_s +
                  links.cost(CollectiveKind::all_reduce, bytes / 8, {4, 1}).link_s,
              1e-6)
      << "scattered within a node, then summed over nodes";
}

TEST(EstimateIteration, OffloadedActivationsWaitForASlowLink) {
  TrainingJob job = job_on(1, 1, 1);
  const double on_gpu_s = estimate(job).time_s;
  job.offload = Offload::activations;
  job.cluster.host.link_bytes_per_s = 1e13;
  EXPECT_DOUBLE_EQ(estimate(job).time_s, on_gpu_s) << "hidden by computation";
  job.cluster.host.link_bytes_per_s = 1e9;
  const double layers = static_cast<double>(job.model.layers - 2) * activation_bytes_per_layer(job) / (0.88 * 1e9);
  const IterationEstimate slow = estimate(job);
  EXPECT_NEAR(slow.stages[0].forward.time_s(), layers, 0.01 * layers) << "as long as the link takes without two layers";
  EXPECT_GT(item_s(slow.stages[0].backward_items, "offload"), 0.5 * layers);
  EXPECT_THAT(slow.notes, testing::Contains(testing::HasSubstr("offload of activations: 1 GB/s each way")));
}

TEST(EstimateIteration, OffloadedStatesAreUpdatedAtTheSpeedOfTheCpusMemory) {
  TrainingJob job = job_on(8, 1, 1);
  job.zero = 3;
  job.cluster.host = {.link_bytes_per_s = 1e12, .memory_bytes_per_s = 50e9, .source = "a test"};
  const IterationEstimate on_gpu = estimate(job);
  job.offload = Offload::states;
  const IterationEstimate offloaded = estimate(job);
  const double parameters = parameters_of_ranks(job).front() / 8;
  EXPECT_NEAR(offloaded.optimizer_s, 34 * parameters / (0.8 * 50e9), 1e-6);
  EXPECT_DOUBLE_EQ(offloaded.pipeline_s, on_gpu.pipeline_s) << "the link is fast";
  EXPECT_NEAR(rest_energy(job.gpu, offloaded).total_j(), job.gpu.power.blocking_w * offloaded.optimizer_s, 1e-6)
      << "the GPU waits";
  job.offload = Offload::optimizer;
  EXPECT_NEAR(estimate(job).optimizer_s - offloaded.optimizer_s, 2 * parameters / (0.88 * 1e12), 1e-6)
      << "weights go back to the GPU";
  job.zero = 1;
  EXPECT_GT(estimate(job).optimizer_s, offloaded.optimizer_s + 4 * parameters / 1e12) << "gradients move at the end";
  job.zero = 3;
  job.offload = Offload::states;
  job.cluster.host.link_bytes_per_s = 1e8;
  EXPECT_GT(item_s(estimate(job).stages[0].forward_items, "offload"), 0);
}

TEST(EstimateIteration, OverlapHidesSumsOfGradients) {
  TrainingJob job = job_on(8, 1, 1);
  const double hidden_s = estimate(job).gradients_s;
  job.overlap.gradients = false;
  EXPECT_LT(hidden_s, 0.3 * estimate(job).gradients_s);
}

TEST(EstimateIteration, OverlapHidesTensorParallelism) {
  TrainingJob job = job_on(1, 8, 1);
  job.overlap.tensor_gradients = false;
  const double waited_s = item_s(estimate(job).stages[0].backward_items, "tensor parallel");
  job.overlap.tensor_gradients = true;
  const double hidden_s = item_s(estimate(job).stages[0].backward_items, "tensor parallel");
  EXPECT_LT(hidden_s, 0.6 * waited_s);
  EXPECT_GT(hidden_s, 0.05 * waited_s);
}

TEST(EstimateIteration, MessagesAreWaitedForUnlessTheyOverlap) {
  TrainingJob job = job_on(1, 8, 4);
  const IterationEstimate waiting = estimate(job);
  EXPECT_GT(item_s(waiting.stages[0].forward_items, "pipeline"), 0);
  EXPECT_EQ(item_s(waiting.stages[3].forward_items, "pipeline"), 0);
  EXPECT_GT(item_s(waiting.stages[3].backward_items, "pipeline"), 0);
  EXPECT_EQ(item_s(waiting.stages[0].backward_items, "pipeline"), 0);
  job.overlap.pipeline = true;
  const IterationEstimate overlapping = estimate(job);
  EXPECT_EQ(item_s(overlapping.stages[0].forward_items, "pipeline"), 0);
  EXPECT_LE(overlapping.pipeline_s, waiting.pipeline_s);
}

TEST(EstimateIteration, ASmallModelWaitsForTheHost) {
  TrainingJob job = job_on(1, 1, 1);
  job.model = named_model("gpt2-small");
  job.batch.sequence_length = 128;
  const IterationEstimate it = estimate(job);
  EXPECT_GT(item_s(it.stages[0].forward_items, "host"), 0);
  job.stack.host = {0, 0, 0, 0};
  EXPECT_EQ(item_s(estimate(job).stages[0].forward_items, "host"), 0);
}

TEST(EstimateIteration, SaysWhatTheUserMayNotExpect) {
  EXPECT_TRUE(estimate(job_on(1, 8, 1)).notes.empty());
  TrainingJob job = job_on(1, 16, 1);
  ASSERT_EQ(estimate(job).notes.size(), 1U);
  EXPECT_NE(estimate(job).notes[0].find("16 ranks"), std::string::npos) << estimate(job).notes[0];
  job = job_on(1, 1, 1);
  job.model = named_model("gpt2-small");
  job.batch.sequence_length = 128;
  ASSERT_EQ(estimate(job).notes.size(), 1U);
  EXPECT_NE(estimate(job).notes[0].find("waits for the host"), std::string::npos);
}

TEST(EstimateIteration, SaysWhichRatesWereNotMeasured) {
  using ::testing::Contains;
  using ::testing::HasSubstr;
  TrainingJob job = job_on(1, 1, 1);
  job.gpu = named_gpu("b200");
  EXPECT_THAT(estimate(job).notes, Contains(HasSubstr("rates of kernels on b200 are assumed")));
  job.gpu = named_gpu("h100");
  job.batch.sequence_length = 16384;
  EXPECT_THAT(estimate(job).notes, Contains(HasSubstr("up to 8192 tokens; its time for 16384 is extrapolated")));
  job.stack.attention = AttentionKernel::flash2;
  EXPECT_THAT(estimate(job).notes, testing::Not(Contains(HasSubstr("extrapolated"))));
}

TEST(EstimateIteration, RunsFlashAttention1OnV100) {
  TrainingJob job = job_on(1, 1, 1);
  job.gpu = named_gpu("v100");
  job.dtype = DataType::fp16;
  const IterationEstimate newest = estimate(job);
  EXPECT_THAT(newest.notes, testing::Contains(testing::HasSubstr("FlashAttention 2 does not run on v100-sxm")));
  job.stack.attention = AttentionKernel::flash1;
  const IterationEstimate flash1 = estimate(job);
  EXPECT_EQ(newest.time_s, flash1.time_s);
  EXPECT_THAT(flash1.notes, testing::Not(testing::Contains(testing::HasSubstr("FlashAttention 2"))));
}

TEST(EstimateIteration, SaysThatTheStackDoesNotRunTheLayout) {
  TrainingJob job = job_on(1, 1, 1);
  job.parallel.dp = 8;
  job.batch.global = 8;
  const auto says = [&job] {
    const std::vector<std::string> notes = estimate(job).notes;
    return std::ranges::any_of(notes, [&job](const std::string& note) {
      return note.starts_with(std::string(job.stack.name) + " runs ") && note.find(" only: ") != std::string::npos;
    });
  };
  job.zero = 3;
  EXPECT_FALSE(says());
  job.stack = named_stack("lowgear");
  EXPECT_TRUE(says());
  job.stack = named_stack("llm-foundry");
  EXPECT_FALSE(says());
  job.zero = 1;
  EXPECT_TRUE(says());
  job.zero = 3;
  job.parallel = {.dp = 4, .tp = 2, .pp = 1};
  EXPECT_TRUE(says());
}

TEST(EstimateIteration, FasterGpusAndLinksAreFaster) {
  TrainingJob job = job_on(2, 4, 2);
  const double h100_s = estimate(job).time_s;
  job.gpu = named_gpu("a100");
  EXPECT_GT(estimate(job).time_s, 1.5 * h100_s);
  job = job_on(2, 4, 2);
  job.cluster.intra_node.bytes_per_s /= 10;
  EXPECT_GT(estimate(job).time_s, h100_s);
}

TEST(EstimateIteration, RefusesAnInvalidJob) {
  TrainingJob job = job_on(1, 3, 1);
  EXPECT_THROW((void)estimate(job), InputError);
}

/// The job with long sequences, of which the second half of the layers has a window.
TrainingJob job_with_window(std::int64_t window) {
  TrainingJob job = job_on(1, 1, 2);
  job.batch.sequence_length = 32768;
  job.model.window = window;
  job.model.windowed.assign(32, false);
  std::fill(job.model.windowed.begin() + 16, job.model.windowed.end(), true);
  return job;
}

TEST(EstimateIteration, TakesLessAttentionWithinAWindowInTheLayersThatHaveOne) {
  const IterationEstimate full = estimate(job_with_window(32768));
  const IterationEstimate it = estimate(job_with_window(4096));
  EXPECT_EQ(it.stages[0].forward.time_s(), full.stages[0].forward.time_s()) << "its layers have none";
  for (const auto items : {&StageEstimate::forward_items, &StageEstimate::backward_items}) {
    const double saved_s = item_s(full.stages[1].*items, "attention") - item_s(it.stages[1].*items, "attention");
    // Rotary embeddings and starts of kernels remain.
    EXPECT_NEAR(saved_s / (item_s(full.stages[1].*items, "attention") * (1 - model::pairs_within_window(32768, 4096))),
                1, 0.05);
    EXPECT_DOUBLE_EQ(item_s(it.stages[1].*items, "linear"), item_s(full.stages[1].*items, "linear"));
    expect_parts_add_up(it.stages[1]);
  }
  EXPECT_LT(it.time_s, full.time_s);
  EXPECT_EQ(full.notes, estimate(job_with_window(0)).notes) << "no sequence outgrows it";
  EXPECT_THAT(it.notes,
              testing::Contains("in 16 of 32 layers a token attends to 4096 tokens at most (sliding window)"));
}

TEST(EstimateIteration, CountsDenseLayersAmongThoseWithExperts) {
  TrainingJob job = job_with_window(0);
  job.model = named_model("qwen3-30b-a3b");
  const auto items_with = [&job](std::int64_t dense_layers) {
    job.model.experts->dense.assign(static_cast<std::size_t>(job.model.layers), false);
    std::fill_n(job.model.experts->dense.begin(), dense_layers, true);
    const std::vector<CostItem> items = estimate(job).stages[0].forward_items;
    return std::pair(item_s(items, "experts"), item_s(items, "linear"));
  };
  const std::int64_t layers = estimate(job).stages[0].layers;
  const auto [experts_s, linear_s] = items_with(0);
  const auto [half_experts_s, half_linear_s] = items_with(layers / 2);
  const auto [no_experts_s, dense_linear_s] = items_with(layers);
  EXPECT_EQ(no_experts_s, 0);
  EXPECT_NEAR(half_experts_s, experts_s * static_cast<double>(layers - layers / 2) / static_cast<double>(layers),
              1e-9 * experts_s);
  EXPECT_GT(half_linear_s, linear_s);
  EXPECT_GT(dense_linear_s, half_linear_s);
}

TEST(EstimateIteration, ComputesAllPairsInUnfusedAttentionAndSaysSo) {
  TrainingJob job = job_with_window(4096);
  job.attention = AttentionKind::unfused;
  const IterationEstimate it = estimate(job);
  job.model.window = 0;
  EXPECT_EQ(it.time_s, estimate(job).time_s);
  EXPECT_THAT(it.notes, testing::Contains(testing::HasSubstr("unfused attention computes all pairs of tokens")));
}

TEST(EstimateIteration, RepeatsTheNotesOnTheModel) {
  TrainingJob job = job_on(1, 1, 1);
  job.model.notes = {"config.json: ignored, since llama does not have it: x"};
  EXPECT_THAT(estimate(job).notes, testing::Contains(job.model.notes.front()));
}

}  // namespace
}  // namespace lowgear::estimator

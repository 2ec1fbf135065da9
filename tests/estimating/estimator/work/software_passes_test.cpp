/// What a stack of software changes in the work of a layer, the head and sharded weights.

#include <gtest/gtest.h>

#include <algorithm>

#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "estimating/estimator/work/rank_parameters.h"
#include "estimating/estimator/work/sharding_work.h"
#include "estimating/estimator/work/stage_work.h"

namespace lowgear::estimator {
namespace {

TrainingJob job_with(std::string_view stack, const char* model = "llama-3-8b") {
  TrainingJob job;
  job.model = named_model(model);
  job.gpu = named_gpu("h200-sxm");
  job.cluster = default_cluster(job.gpu);
  job.batch = {.global = 8, .micro = 1, .sequence_length = 2048};
  job.stack = named_stack(stack);
  return job;
}

/// Bytes that operators of a kind move in a pass.
double moved(const PassWork& pass, OperatorKind kind) {
  double bytes = 0;
  for (const OperatorUse& use : pass.operators) {
    if (use.op.kind == kind) bytes += use.times * memory_bytes(use.op);
  }
  return bytes;
}

double product_flops(const PassWork& pass) {
  double sum = 0;
  for (const OperatorUse& use : pass.operators) {
    if (use.op.kind == OperatorKind::linear) sum += use.times * flops(use.op);
  }
  return sum;
}

TEST(SoftwarePasses, ProductsDoTheSameWorkOnEveryStack) {
  const BlockWork megatron = layer_work(job_with("megatron"));
  for (const SoftwareStack& stack : software_stacks()) {
    const BlockWork work = layer_work(job_with(stack.name));
    EXPECT_DOUBLE_EQ(product_flops(work.forward), product_flops(megatron.forward)) << stack.name;
    EXPECT_DOUBLE_EQ(product_flops(work.backward), product_flops(megatron.backward)) << stack.name;
  }
}

TEST(SoftwarePasses, EagerLayersTurnQueriesAndKeysInSevenPassesAndRepeatKeys) {
  const BlockWork work = layer_work(job_with("eager"));
  EXPECT_EQ(moved(work.forward, OperatorKind::rotary), 0);
  const double element = 2 * 2;  // read and written
  const double turned = 2048.0 * (32 + 8) * 128 * element;
  const double repeated = 2048.0 * 2 * 4096 * element;
  EXPECT_DOUBLE_EQ(moved(work.forward, OperatorKind::permute), 7 * turned + repeated);
  EXPECT_DOUBLE_EQ(moved(work.forward, OperatorKind::swiglu), 5 * 2.0 * 2048 * 14336);
  EXPECT_DOUBLE_EQ(moved(work.backward, OperatorKind::swiglu), 9 * 2.0 * 2048 * 14336);
}

TEST(SoftwarePasses, CompiledLayersAddTheResidualInTheNormsKernel) {
  const double hidden = 2.0 * 2048 * 4096;
  const BlockWork compiled = layer_work(job_with("compiled"));
  EXPECT_DOUBLE_EQ(moved(compiled.forward, OperatorKind::residual_add), 2 * 2 * hidden);
  // One more tensor each; apart, three gradients of queries, keys and values and two of gate and up are added.
  EXPECT_DOUBLE_EQ(moved(compiled.backward, OperatorKind::residual_add), (2 * 1 + 3 * 3) * hidden);
  EXPECT_DOUBLE_EQ(moved(layer_work(job_with("megatron")).forward, OperatorKind::residual_add), 2 * 3 * hidden);
}

TEST(SoftwarePasses, AModelWithOneProductForAttentionHasNothingToAdd) {
  const BlockWork eager = layer_work(job_with("eager", "gpt2-xl"));
  const BlockWork megatron = layer_work(job_with("megatron", "gpt2-xl"));
  EXPECT_EQ(eager.backward.operators.size(), megatron.backward.operators.size());
  EXPECT_GT(moved(layer_work(job_with("llm-foundry", "gpt2-xl")).backward, OperatorKind::permute), 0)
      << "joined gradients";
}

TEST(SoftwarePasses, AttentionIsOfTheStacksGeneration) {
  for (const OperatorUse& use : layer_work(job_with("llm-foundry", "gpt2-xl")).forward.operators) {
    if (use.op.kind != OperatorKind::fused_attention) continue;
    EXPECT_EQ(use.op.kernel, AttentionKernel::flash1);
  }
}

TEST(SoftwarePasses, TheLossIsTheStacks) {
  EXPECT_GT(moved(head_work(job_with("compiled")).forward, OperatorKind::fused_loss), 0);
  EXPECT_GT(moved(head_work(job_with("eager")).forward, OperatorKind::plain_loss), 0);
  TrainingJob job = job_with("eager");
  job.parallel.tp = 2;  // PyTorch's loss knows no parts of a vocabulary
  EXPECT_GT(moved(head_work(job).forward, OperatorKind::cross_entropy), 0);
}

/// Microseconds of the trainer's kernels at 8192 tokens of hidden 2048 on an H200, as bench/RESULTS.md has them.
TEST(SoftwarePasses, TheTrainersKernelsTakeWhatWasMeasured) {
  TrainingJob job = job_with("lowgear", "llama-2-7b");
  job.model.hidden = 2048;
  job.model.heads = job.model.kv_heads = 16;
  job.model.intermediate = 5632;
  job.model.vocabulary = 32000;
  job.batch.micro = 4;
  const RooflineCosts costs(job.gpu);
  const auto us = [&](const PassWork& pass, WorkPart part, OperatorKind kind) {
    double sum = 0;
    for (const OperatorUse& use : pass.operators) {
      if (use.part == part && use.op.kind == kind) sum += 1e6 * use.times * costs.cost(use.op).time_s();
    }
    return sum;
  };
  const BlockWork layer = layer_work(job);
  EXPECT_NEAR(us(layer.forward, WorkPart::attention, OperatorKind::permute), 54.0, 3);
  EXPECT_NEAR(us(layer.backward, WorkPart::attention, OperatorKind::permute), 53.5, 3);
  EXPECT_NEAR(us(layer.forward, WorkPart::elementwise, OperatorKind::swiglu), 67.5, 3);
  EXPECT_NEAR(us(layer.backward, WorkPart::elementwise, OperatorKind::swiglu), 111.1, 3);
  const auto norms_us = [&](const PassWork& pass) {
    return us(pass, WorkPart::normalisation, OperatorKind::permute) +
           us(pass, WorkPart::elementwise, OperatorKind::residual_add);
  };
  EXPECT_NEAR(norms_us(layer.forward), 2 * 38.5, 6);
  EXPECT_NEAR(norms_us(layer.backward), 2 * 46.7, 6);
  const BlockWork head = head_work(job);
  EXPECT_NEAR(us(head.forward, WorkPart::cross_entropy, OperatorKind::online_loss), 137.4, 5);
  EXPECT_NEAR(us(head.backward, WorkPart::cross_entropy, OperatorKind::online_loss), 261.9, 8);
}

TEST(SoftwarePasses, NormsApartAreSingleOperations) {
  TrainingJob job = job_with("eager");
  const double fused = moved(layer_work(job).forward, OperatorKind::permute);
  job.stack.fused_norms = false;
  const BlockWork work = layer_work(job);
  EXPECT_EQ(moved(work.forward, OperatorKind::rms_norm), 0);
  const double element = 2 * 2;  // read and written
  EXPECT_DOUBLE_EQ(moved(work.forward, OperatorKind::permute), fused + 2 * 13 * 2048.0 * 4096 * element);
}

TEST(SoftwarePasses, ScalesOfOnesOwnReadATensorOnceMore) {
  TrainingJob job = job_with("megatron");
  job.dtype = DataType::fp8;
  const double delayed = moved(layer_work(job).forward, OperatorKind::permute);
  job.stack.scales_dynamically = true;
  const double weights = 2.0 * 2 * layer_parameters(job).total();  // read and written
  EXPECT_NEAR(moved(layer_work(job).forward, OperatorKind::permute), 1.5 * (delayed + weights), 1e-6 * delayed);
}

class ShardedOnStack : public testing::Test {
 protected:
  static TrainingJob job(std::string_view stack) {
    TrainingJob job = job_with(stack);
    job.zero = 3;
    job.parallel.dp = 8;
    return job;
  }
  static CollectiveUse gather_of(const PassWork& pass) {
    return *std::ranges::find(pass.collectives, CollectiveKind::all_gather, &CollectiveUse::kind);
  }
};

TEST_F(ShardedOnStack, GathersAheadUnlessTheStackWaits) {
  EXPECT_EQ(gather_of(layer_work(job("eager")).backward).overlaps, kWholePass);
  const BlockWork waiting = layer_work(job("llm-foundry"));
  EXPECT_EQ(gather_of(waiting.forward).overlaps, kWholePass);
  for (const CollectiveUse& use : waiting.backward.collectives) EXPECT_EQ(use.overlaps, kNothing);
}

TEST_F(ShardedOnStack, SumsInTheStacksType) {
  EXPECT_EQ(summed_gradient_bytes(job("eager")), 4);
  EXPECT_EQ(summed_gradient_bytes(job("llm-foundry")), 2);
}

TEST_F(ShardedOnStack, CopiesGatheredWeightsWhereTheStackDoes) {
  const auto copied = [](const PassWork& pass, WorkPart part) {
    double times = 0;
    for (const OperatorUse& use : pass.operators) {
      if (use.part == part && use.op.kind == OperatorKind::permute) times += use.times;
    }
    return times;
  };
  EXPECT_DOUBLE_EQ(copied(layer_work(job("eager")).forward, WorkPart::sharded_weights), 1);
  EXPECT_DOUBLE_EQ(copied(layer_work(job("llm-foundry")).forward, WorkPart::sharded_weights), 0);
  EXPECT_DOUBLE_EQ(copied(layer_work(job("llm-foundry")).backward, WorkPart::sharded_gradients), 1);
  EXPECT_GT(copied(layer_work(job("eager")).backward, WorkPart::sharded_gradients), 3) << "converted to fp32";
}

}  // namespace
}  // namespace lowgear::estimator

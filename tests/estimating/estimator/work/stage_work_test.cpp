#include "estimating/estimator/work/stage_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "estimating/estimator/work/rank_groups.h"

namespace lowgear::estimator {
namespace {

model::ModelConfig gpt() {
  model::ModelConfig shape = model::gpt_model(512, 4, 8, 1024, 256);
  shape.name = "gpt";
  return shape;
}

model::ModelConfig llama() {
  model::ModelConfig shape = gpt();
  shape.name = "llama";
  shape.kv_heads = 2;
  shape.intermediate = 1536;
  shape.mlp = model::MlpKind::gated;
  shape.norm = model::NormKind::rms_norm;
  shape.positions = model::PositionKind::rotary;
  shape.qkv_biases = false;
  shape.output_bias = false;
  shape.mlp_biases = false;
  return shape;
}

model::ModelConfig mixture() {
  model::ModelConfig shape = llama();
  shape.name = "mixture";
  shape.experts = model::ExpertShape{8, 2, 768, 256};
  return shape;
}

model::ModelConfig encoder() {
  model::ModelConfig shape = gpt();
  shape.name = "encoder";
  shape.encoder_layers = shape.layers;
  shape.head_transform = true;
  return shape;
}

model::ModelConfig encoder_and_decoder() {
  model::ModelConfig shape = gpt();
  shape.name = "encoder_and_decoder";
  shape.encoder_layers = 1;
  return shape;
}

TrainingJob job_of(const model::ModelConfig& shape) {
  TrainingJob job;
  job.model = shape;
  job.gpu = named_gpu("h100-sxm");
  job.cluster = default_cluster(job.gpu);
  job.batch = {.global = 8, .micro = 2, .sequence_length = 256};
  job.attention = AttentionKind::unfused;
  return job;
}

double tensor_flops(const PassWork& work) {
  double sum = 0;
  for (const OperatorUse& use : work.operators) {
    if (is_matrix_product(use.op.kind)) sum += use.times * flops(use.op);
  }
  return sum;
}

double flops_of(const TrainingJob& job, PassWork BlockWork::*pass) {
  const std::optional<TrainingJob> second = second_kind(job);
  double sum = tensor_flops(embedding_work(job).*pass) + tensor_flops(head_work(job).*pass);
  for (std::int64_t layer = 0; layer < job.model.layers; ++layer) {
    sum += tensor_flops(layer_work(is_of_second_kind(job.model, layer) ? *second : job).*pass);
  }
  return sum;
}

double forward_flops(const TrainingJob& job) { return flops_of(job, &BlockWork::forward); }
double backward_flops(const TrainingJob& job) { return flops_of(job, &BlockWork::backward); }

class WholeModel : public testing::TestWithParam<model::ModelConfig> {};

TEST_P(WholeModel, DoesTheFlopsOfTraining) {
  const TrainingJob job = job_of(GetParam());
  const double tokens = 2 * 256;
  EXPECT_DOUBLE_EQ(forward_flops(job) + backward_flops(job), training_flops_per_token(job.model, 256) * tokens);
  EXPECT_DOUBLE_EQ(backward_flops(job), 2 * forward_flops(job));
}

TEST_P(WholeModel, IsDividedAmongTensorParallelRanks) {
  TrainingJob job = job_of(GetParam());
  // Each rank routes all tokens, with the gate of the shared expert.
  const double router =
      job.model.experts ? 2.0 * 4 * 2 * 256 * 512 * static_cast<double>(job.model.experts->experts + 1) : 0;
  const double undivided = router + (job.model.head_transform ? 2.0 * 2 * 256 * 512 * 512 : 0);
  const double whole = forward_flops(job) - undivided;
  job.parallel.tp = 2;
  EXPECT_DOUBLE_EQ(forward_flops(job) - undivided, whole / 2);
}

TEST_P(WholeModel, IsDividedAmongContextParallelRanks) {
  TrainingJob job = job_of(GetParam());
  const double whole = forward_flops(job);
  job.parallel.cp = 2;
  EXPECT_DOUBLE_EQ(forward_flops(job), whole / 2);
  job.attention = AttentionKind::fused;
  const double divided = forward_flops(job);
  job.parallel.cp = 1;
  EXPECT_DOUBLE_EQ(divided, forward_flops(job) / 2);
}

INSTANTIATE_TEST_SUITE_P(Shapes, WholeModel,
                         testing::Values(gpt(), llama(), mixture(), encoder(), encoder_and_decoder()),
                         [](const auto& shape) { return shape.param.name; });

/// A causal mask leaves half of the pairs of tokens; neither an encoder nor attention to it has one.
TEST(LayerWork, OfAnEncoderHasTwiceTheFusedAttentionOfADecoder) {
  const auto attention = [](const TrainingJob& job) {
    double sum = 0;
    for (const OperatorUse& use : layer_work(job).forward.operators) {
      if (use.op.kind == OperatorKind::fused_attention) sum += use.times * flops(use.op);
    }
    return sum;
  };
  TrainingJob decoder = job_of(gpt());
  TrainingJob both = job_of(encoder_and_decoder());
  decoder.attention = both.attention = AttentionKind::fused;
  EXPECT_DOUBLE_EQ(attention(*second_kind(both)), 2 * attention(decoder));
  EXPECT_DOUBLE_EQ(attention(both), 3 * attention(decoder));
}

TEST(LayerWork, FullRecomputationAddsOneForward) {
  TrainingJob job = job_of(gpt());
  EXPECT_TRUE(layer_work(job).recomputed.operators.empty());
  job.recompute = Recompute::full;
  const BlockWork work = layer_work(job);
  EXPECT_DOUBLE_EQ(tensor_flops(work.recomputed), tensor_flops(work.forward));
  EXPECT_EQ(work.recomputed.collectives.size(), work.forward.collectives.size());
}

TEST(LayerWork, RecomputationOfOperatorsKeepsAttentionAndEveryOtherProduct) {
  TrainingJob job = job_of(gpt());
  job.attention = AttentionKind::fused;
  job.recompute = Recompute::operators;
  const BlockWork work = layer_work(job);
  std::vector<std::int64_t> widths;
  for (const OperatorUse& use : work.recomputed.operators) {
    EXPECT_NE(use.op.kind, OperatorKind::fused_attention);
    if (use.op.kind == OperatorKind::linear) widths.push_back(use.op.dims[1]);
  }
  EXPECT_EQ(widths, (std::vector<std::int64_t>{512, 2048})) << "output of attention, second of the MLP";
  EXPECT_LT(work.recomputed.operators.size(), work.forward.operators.size());
  EXPECT_TRUE(work.recomputed.collectives.empty());
}

TEST(LayerWork, InFp8ProductsReadWhatCastsWrite) {
  TrainingJob job = job_of(gpt());
  job.attention = AttentionKind::fused;
  const auto copied = [&job](PassWork BlockWork::*pass) {
    const BlockWork work = layer_work(job);
    double bytes = 0;
    for (const OperatorUse& use : (work.*pass).operators) {
      if (use.op.kind == OperatorKind::permute) bytes += use.times * memory_bytes(use.op);
    }
    return bytes;
  };
  EXPECT_EQ(copied(&BlockWork::forward), 0);
  job.dtype = DataType::fp8;
  const double tokens = 2 * 256 * 4;  // read in two bytes, written twice in one
  EXPECT_DOUBLE_EQ(copied(&BlockWork::forward), tokens * (3 * 512 + 2048));
  EXPECT_DOUBLE_EQ(copied(&BlockWork::backward), tokens * (3 * 512 + 512 + 2048 + 512));
  for (const OperatorUse& use : head_work(job).forward.operators) EXPECT_NE(use.op.dtype, DataType::fp8);
}

TEST(LayerWork, InFp4CastsWriteLessAndReplicasGather16Bits) {
  TrainingJob job = job_of(llama());
  job.gpu = named_gpu("b200");
  job.attention = AttentionKind::fused;
  job.parallel.dp = 8;
  job.zero = 3;
  const auto gathered = [&job] { return layer_work(job).forward.collectives.at(0).bytes; };
  const auto cast = [&job] {
    double bytes = 0;
    for (const OperatorUse& use : layer_work(job).forward.operators) {
      if (use.op.kind == OperatorKind::permute) bytes += use.times * memory_bytes(use.op);
    }
    return bytes;
  };
  const double in_bf16 = gathered();
  job.dtype = DataType::fp8;
  const double fp8_casts = cast();
  EXPECT_DOUBLE_EQ(gathered(), in_bf16 / 2);
  job.dtype = DataType::fp4;
  EXPECT_DOUBLE_EQ(gathered(), in_bf16);
  EXPECT_DOUBLE_EQ(cast(), fp8_casts * (2 + 2 * 9.0 / 16 + 2) / 4) << "two reads, two copies of 9/16 bytes";
  for (const OperatorUse& use : layer_work(job).forward.operators) {
    EXPECT_EQ(use.op.dtype, use.op.kind == OperatorKind::linear ? DataType::fp4 : DataType::bf16);
  }
}

TEST(LayerWork, SelectiveRecomputationRunsScoresAgain) {
  TrainingJob job = job_of(gpt());
  job.recompute = Recompute::selective;
  job.dropout = 0.1;
  const BlockWork work = layer_work(job);
  std::vector<OperatorKind> kinds;
  for (const OperatorUse& use : work.recomputed.operators) kinds.push_back(use.op.kind);
  EXPECT_EQ(kinds, (std::vector<OperatorKind>{OperatorKind::attention_scores, OperatorKind::fused_softmax,
                                              OperatorKind::dropout, OperatorKind::attention_values}));
  job.attention = AttentionKind::fused;
  EXPECT_TRUE(layer_work(job).recomputed.operators.empty());
}

TEST(LayerWork, NeedsSeveralKernelsForASoftmaxThatIsNotFused) {
  TrainingJob job = job_of(gpt());
  const auto softmaxes = [&job] {
    std::vector<OperatorKind> kinds;
    for (const OperatorUse& use : layer_work(job).forward.operators) {
      const bool softmax = use.op.kind == OperatorKind::fused_softmax || use.op.kind == OperatorKind::softmax;
      if (softmax) kinds.push_back(use.op.kind);
    }
    return kinds;
  };
  EXPECT_EQ(softmaxes(), std::vector<OperatorKind>{OperatorKind::fused_softmax});
  job.batch.micro = 1;
  job.parallel.tp = static_cast<int>(job.model.heads) / 2;  // two rows of scores on each rank
  EXPECT_EQ(softmaxes(), std::vector<OperatorKind>{OperatorKind::softmax});
  job.parallel.tp = 1;
  job.batch.sequence_length = 8192;
  EXPECT_EQ(softmaxes(), std::vector<OperatorKind>{OperatorKind::softmax});
}

double link_bytes(const PassWork& work) {
  double sum = 0;
  for (const CollectiveUse& use : work.collectives) {
    sum += (use.kind == CollectiveKind::all_reduce ? 2 : 1) * use.bytes;
  }
  return sum;
}

/// An all-reduce is a reduce-scatter and an all-gather: sequence parallelism moves no more (Korthikanti et al. 2022,
/// section 4.2.2), but for gathering the inputs of two products again, backward.
TEST(LayerWork, SequenceParallelismMovesAsMuch) {
  TrainingJob job = job_of(gpt());
  job.parallel.tp = 4;
  const double forward = link_bytes(layer_work(job).forward);
  const double backward = link_bytes(layer_work(job).backward);
  EXPECT_DOUBLE_EQ(forward, 4.0 * 2 * 256 * 512 * 2);
  EXPECT_DOUBLE_EQ(backward, forward);
  job.parallel.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(link_bytes(layer_work(job).forward), forward);
  EXPECT_DOUBLE_EQ(link_bytes(layer_work(job).backward), backward * 1.5);
}

TEST(LayerWork, OneGpuCommunicatesNothing) {
  const TrainingJob job = job_of(mixture());
  for (const BlockWork& block : {layer_work(job), embedding_work(job), head_work(job)}) {
    EXPECT_TRUE(block.forward.collectives.empty());
    EXPECT_TRUE(block.backward.collectives.empty());
  }
}

TEST(LayerWork, ExpertsExchangeTokensFourTimes) {
  TrainingJob job = job_of(mixture());
  job.parallel.dp = 4;
  job.parallel.ep = 4;
  const BlockWork work = layer_work(job);
  const auto exchanges = [](const PassWork& pass) {
    return std::count_if(pass.collectives.begin(), pass.collectives.end(),
                         [](const CollectiveUse& use) { return use.kind == CollectiveKind::all_to_all; });
  };
  EXPECT_EQ(exchanges(work.forward), 2);
  EXPECT_EQ(exchanges(work.backward), 2);
}

// The products of what was sampled as one are those of the experts, without the shared one.
TEST(LayerWork, SaysWhichOperatorsAreTheExperts) {
  TrainingJob job = job_of(mixture());
  job.parallel.dp = 2;
  job.parallel.ep = 2;
  job.parallel.tp = 2;
  const BlockWork work = layer_work(job);
  for (const PassWork* const pass : {&work.forward, &work.backward}) {
    ASSERT_TRUE(pass->experts.has_value());
    const WholeUse& whole = *pass->experts;
    EXPECT_EQ(whole.op.kind, OperatorKind::gated_experts);
    EXPECT_EQ(whole.op.dims, (std::array<std::int64_t, 4>{2 * 256, 512, 768 / 2, 8 / 2}));
    EXPECT_EQ(whole.op.rows, 2 * 256 * 2);
    PassWork parts;
    parts.operators.assign(pass->operators.begin() + static_cast<std::ptrdiff_t>(whole.first),
                           pass->operators.begin() + static_cast<std::ptrdiff_t>(whole.end));
    for (const OperatorUse& use : parts.operators) {
      EXPECT_EQ(use.part, WorkPart::experts);
      EXPECT_EQ(use.op.pass, whole.op.pass);
    }
    const double passes = pass == &work.forward ? 1 : 2;
    const double other_experts = passes * 2 * 2 * 256 * 512 * 4;  // of the router
    EXPECT_DOUBLE_EQ(tensor_flops(parts), flops(whole.op) + other_experts);
  }
  EXPECT_FALSE(layer_work(job_of(llama())).forward.experts.has_value());
}

TEST(LayerWork, GathersShardedWeightsBeforeBothPasses) {
  TrainingJob job = job_of(llama());
  job.parallel.dp = 8;
  job.zero = 3;
  const BlockWork work = layer_work(job);
  ASSERT_EQ(work.forward.collectives.size(), 1U);
  ASSERT_EQ(work.backward.collectives.size(), 2U);
  EXPECT_EQ(work.backward.collectives[1].kind, CollectiveKind::reduce_scatter);
  EXPECT_DOUBLE_EQ(work.forward.collectives[0].bytes,
                   2.0 * static_cast<double>(layer_parameters(job.model, false).total()));
}

TEST(LayerWork, ScattersGradientsOfEveryMicrobatchOnceTheyAreSharded) {
  TrainingJob job = job_of(llama());
  job.parallel.dp = 8;
  job.zero = 1;
  EXPECT_TRUE(layer_work(job).backward.collectives.empty()) << "summed once, at the end";
  job.zero = 2;
  const BlockWork work = layer_work(job);
  EXPECT_TRUE(work.forward.collectives.empty());
  ASSERT_EQ(work.backward.collectives.size(), 1U);
  EXPECT_EQ(work.backward.collectives[0].kind, CollectiveKind::reduce_scatter);
  EXPECT_DOUBLE_EQ(work.backward.collectives[0].bytes,
                   4.0 * static_cast<double>(layer_parameters(job.model, false).total()))
      << "bf16 is summed in fp32";
}

TEST(LayerWork, SumsShardsWithTheGroupsThatHaveCopies) {
  TrainingJob job = job_of(llama());
  job.parallel.dp = 32;
  job.zero = 3;
  job.shard_size = 8;
  const auto parameters = static_cast<double>(layer_parameters(job.model, false).total());
  const BlockWork work = layer_work(job);
  EXPECT_EQ(work.forward.collectives.at(0).group.ranks, 8);
  ASSERT_EQ(work.backward.collectives.size(), 3U);
  EXPECT_EQ(work.backward.collectives[1].group.ranks, 8);
  EXPECT_DOUBLE_EQ(work.backward.collectives[1].bytes, 4 * parameters);
  EXPECT_EQ(work.backward.collectives[2].kind, CollectiveKind::all_reduce);
  EXPECT_EQ(work.backward.collectives[2].group.ranks, 4);
  EXPECT_DOUBLE_EQ(work.backward.collectives[2].bytes, 4 * parameters / 8);
}

TEST(LayerWork, ShardsExpertsAmongTheirOwnReplicas) {
  TrainingJob job = job_of(mixture());
  job.parallel.dp = 8;
  job.parallel.ep = 4;
  job.zero = 3;
  const model::LayerParameters counts = layer_parameters(job.model, true);
  double dense = 0;
  double experts = 0;
  for (const CollectiveUse& use : layer_work(job).forward.collectives) {
    if (use.kind != CollectiveKind::all_gather) continue;
    (use.group == expert_replica_groups(job).shards ? experts : dense) += use.bytes;
  }
  EXPECT_DOUBLE_EQ(experts, 2.0 * static_cast<double>(counts.experts) / 4);
  EXPECT_DOUBLE_EQ(dense, 2.0 * static_cast<double>(counts.total() - counts.experts));
}

/// What a microbatch gathers or scatters of sharded weights, in elements of `bytes_each`.
double moved(const PassWork& pass, CollectiveKind kind, double bytes_each) {
  double sum = 0;
  for (const CollectiveUse& use : pass.collectives) {
    if (use.kind == kind) sum += use.bytes / bytes_each;
  }
  return sum;
}

TEST(Sharding, MovesEveryWeightOfTheModel) {
  for (const bool tied : {false, true}) {
    TrainingJob job = job_of(llama());
    job.model.tied_embeddings = tied;
    job.parallel.dp = 8;
    job.zero = 3;
    double gathered = 0;
    double scattered = 0;
    const auto add = [&](const BlockWork& block, double times) {
      gathered += times * moved(block.forward, CollectiveKind::all_gather, 2);
      scattered += times * moved(block.backward, CollectiveKind::reduce_scatter, 4);
    };
    add(embedding_work(job), 1);
    add(layer_work(job), static_cast<double>(job.model.layers));
    add(head_work(job), 1);
    const auto parameters = static_cast<double>(parameter_count(job.model) - job.model.hidden);  // less the last norm
    EXPECT_DOUBLE_EQ(gathered, parameters) << "tied " << tied;
    EXPECT_DOUBLE_EQ(scattered, parameters) << "tied " << tied;
  }
}

TEST(HeadWork, GathersLogitsWhereTheLossIsWhole) {
  TrainingJob job = job_of(gpt());
  job.parallel.tp = 4;
  const auto loss_elements = [&job] {
    for (const OperatorUse& use : head_work(job).forward.operators) {
      const bool loss = use.op.kind ==
                        (job.stack.loss == LossKind::split ? OperatorKind::cross_entropy : OperatorKind::gathered_loss);
      if (loss) return use.op.dims[0] * use.op.dims[1] * use.op.dims[2];
    }
    return std::int64_t{0};
  };
  EXPECT_EQ(loss_elements(), 2 * 256 * 1024 / 4);
  job.stack.loss = LossKind::gathered;
  EXPECT_EQ(loss_elements(), 2 * 256 * 1024);
  ASSERT_EQ(head_work(job).forward.collectives.size(), 1U);
  EXPECT_DOUBLE_EQ(head_work(job).forward.collectives[0].bytes, 2.0 * 256 * 1024 * 2);
}

TEST(RankGroups, FollowTheLayoutOfRanks) {
  TrainingJob job = job_of(gpt());
  job.cluster.gpus_per_node = 8;
  job.parallel = {.dp = 4, .tp = 4, .pp = 2, .cp = 2};
  EXPECT_EQ(tensor_group(job), (RankGroup{4, 4}));
  EXPECT_EQ(context_group(job), (RankGroup{2, 2}));
  EXPECT_EQ(replica_groups(job).shards, (RankGroup{8, 2}));
  job.parallel.tp = 8;
  EXPECT_EQ(context_group(job), (RankGroup{2, 1}));
  job.parallel.tp = 16;
  EXPECT_EQ(tensor_group(job), (RankGroup{16, 8}));
  EXPECT_EQ(replica_groups(job).shards, (RankGroup{8, 1}));
}

TEST(RankGroups, ShardWithinGroupsThatHaveCopies) {
  TrainingJob job = job_of(mixture());
  job.cluster.gpus_per_node = 8;
  job.parallel = {.dp = 16, .tp = 2, .pp = 1, .ep = 2};
  const RankGroup one{1, 1};
  job.zero = 0;
  EXPECT_EQ(replica_groups(job).shards, one);
  EXPECT_EQ(replica_groups(job).copies, (RankGroup{16, 4}));
  job.zero = 3;
  EXPECT_EQ(replica_groups(job).copies, one);
  job.shard_size = 4;
  EXPECT_EQ(replica_groups(job).shards, (RankGroup{4, 4})) << "next to each other: a node";
  EXPECT_EQ(replica_groups(job).copies, (RankGroup{4, 1}));
  EXPECT_EQ(expert_replica_groups(job).shards, (RankGroup{2, 2}));
  EXPECT_EQ(expert_replica_groups(job).copies, (RankGroup{4, 1}));
}

TEST(RankGroups, NeighboursAreOnOneNodeWhereStagesAre) {
  TrainingJob job = job_of(gpt());
  job.cluster.gpus_per_node = 8;
  job.parallel = {.dp = 1, .tp = 2, .pp = 8};
  EXPECT_EQ(neighbour_group(job, 0), (RankGroup{2, 2}));
  EXPECT_EQ(neighbour_group(job, 3), (RankGroup{2, 1}));
  EXPECT_EQ(neighbour_group(job, 4), (RankGroup{2, 2}));
}

TEST(MessageWork, SplitsMessagesAmongTensorRanks) {
  TrainingJob job = job_of(gpt());
  job.parallel = {.dp = 1, .tp = 4, .pp = 2};
  const double bytes = 2.0 * 256 * 512 * 2;
  const auto split = message_work(job, 0);
  ASSERT_EQ(split.size(), 2U);
  EXPECT_DOUBLE_EQ(split[0].bytes, bytes / 4);
  EXPECT_EQ(split[1].kind, CollectiveKind::all_gather);
  job.split_messages = false;
  ASSERT_EQ(message_work(job, 0).size(), 1U);
  EXPECT_DOUBLE_EQ(message_work(job, 0)[0].bytes, bytes);
  job.parallel.sequence_parallel = true;
  ASSERT_EQ(message_work(job, 0).size(), 1U);
  EXPECT_DOUBLE_EQ(message_work(job, 0)[0].bytes, bytes / 4);
}

TEST(LayerWork, CountsBiasesWhereTheyAre) {
  const auto gradients = [](bool qkv, bool output, bool mlp) {
    model::ModelConfig shape = llama();
    shape.qkv_biases = qkv;
    shape.output_bias = output;
    shape.mlp_biases = mlp;
    const BlockWork work = layer_work(job_of(shape));
    return std::ranges::count(work.backward.operators, OperatorKind::bias_gradient,
                              [](const OperatorUse& use) { return use.op.kind; });
  };
  EXPECT_EQ(gradients(false, false, false), 0);
  EXPECT_EQ(gradients(true, false, false), 1);
  EXPECT_EQ(gradients(true, true, false), 2);
  EXPECT_EQ(gradients(false, false, true), 2) << "of both products";
}

}  // namespace
}  // namespace lowgear::estimator

#include "estimating/estimator/work/stage_work.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <numeric>

#include "estimating/estimator/work/block_builder.h"
#include "estimating/estimator/work/rank_groups.h"
#include "estimating/estimator/work/rank_parameters.h"
#include "estimating/estimator/work/sharding_work.h"

namespace lowgear::estimator {
namespace {

/// Sizes of one rank's part of a microbatch.
struct RankShape {
  explicit RankShape(const TrainingJob& job)
      : batch(job.batch.micro),
        sequence(job.batch.sequence_length / job.parallel.cp),
        tokens(batch * sequence),
        norm_sequence(job.parallel.sequence_parallel ? sequence / job.parallel.tp : sequence),
        hidden(job.model.hidden),
        heads(job.model.heads / job.parallel.tp),
        kv_heads(std::max<std::int64_t>(1, job.model.kv_heads / job.parallel.tp)),
        head_dim(job.model.head_dim),
        activation_bytes(static_cast<double>(tokens) * static_cast<double>(hidden) *
                         std::max(2.0, bytes_of(job.dtype))) {}

  std::int64_t batch;
  std::int64_t sequence;       ///< of a context parallel rank
  std::int64_t tokens;         ///< batch * sequence
  std::int64_t norm_sequence;  ///< where norms and residuals are split, too
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  double activation_bytes;  ///< between layers
};

/// Collectives of tensor parallelism around two products: a column-parallel one, whose input gradient is summed, and a
/// row-parallel one, whose output is. With sequence parallelism sums are a reduce-scatter where the split activations
/// begin and an all-gather where they end, and the backward gathers the column-parallel one's input again.
class TensorCollectives {
 public:
  TensorCollectives(const TrainingJob& job, double bytes) : job_(job), bytes_(bytes), group_(tensor_group(job)) {}

  void column(BlockBuilder& block, int product, int backward_product) const {
    const bool beside_gradient = job_.overlap.tensor_gradients || job_.overlap.tensor;
    const int gradient = beside_gradient ? backward_product : -1;
    if (!job_.parallel.sequence_parallel) {
      block.communicate(&BlockWork::backward, use(CollectiveKind::all_reduce, gradient, 0.5));
      return;
    }
    block.communicate(&BlockWork::forward, use(CollectiveKind::all_gather, job_.overlap.tensor ? product : -1, 1));
    block.communicate(&BlockWork::backward, use(CollectiveKind::all_gather, gradient, 0.5));
    block.communicate(&BlockWork::backward, use(CollectiveKind::reduce_scatter, gradient, 0.5));
  }

  void row(BlockBuilder& block, int product, int backward_product) const {
    const auto kind = job_.parallel.sequence_parallel ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    block.communicate(&BlockWork::forward, use(kind, job_.overlap.tensor ? product : -1, 1));
    if (!job_.parallel.sequence_parallel) return;
    block.communicate(&BlockWork::backward,
                      use(CollectiveKind::all_gather, job_.overlap.tensor ? backward_product : -1, 1));
  }

 private:
  [[nodiscard]] CollectiveUse use(CollectiveKind kind, int overlaps, double share) const {
    return {kind, bytes_, group_, WorkPart::tensor_parallel, overlaps, share};
  }

  const TrainingJob& job_;
  double bytes_;
  RankGroup group_;
};

int last_index(const PassWork& pass) { return static_cast<int>(pass.operators.size()) - 1; }

/// An RMS norm as single operations, most of them in fp32, in copies of its input: Hugging Face's on an H200.
constexpr PassTimes kNormPasses{13, 30};

void add_norm(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  const std::array<std::int64_t, 4> dims{shape.batch, shape.norm_sequence, shape.hidden, 1};
  const bool rms = job.model.norm == model::NormKind::rms_norm;
  if (rms && !job.stack.fused_norms) {
    block.add(WorkPart::normalisation, OperatorKind::permute, dims, kNormPasses);
  } else if (job.stack.norm_passes) {
    block.add(WorkPart::normalisation, OperatorKind::permute, dims, *job.stack.norm_passes);
  } else {
    block.add(WorkPart::normalisation, rms ? OperatorKind::rms_norm : OperatorKind::layer_norm, dims);
  }
}

/// Megatron adds bias and residual and drops out in one kernel; backward, the mask is applied by one of its own. In the
/// norm's kernel the addition reads one more tensor and writes one, and backward reads one more.
void add_residual(BlockBuilder& block, const TrainingJob& job, const RankShape& shape, bool bias) {
  const std::array<std::int64_t, 4> dims{shape.batch, shape.norm_sequence, shape.hidden, 1};
  const PassTimes times = job.stack.fused_residual ? PassTimes{2.0 / 3, 1.0 / 3} : PassTimes{};
  block.add(WorkPart::elementwise, OperatorKind::residual_add, dims, times);
  if (bias) block.backward(WorkPart::elementwise, OperatorKind::bias_gradient, dims);
  if (job.dropout > 0) block.backward(WorkPart::elementwise, OperatorKind::dropout, dims);
}

/// Megatron's kernel that scales, masks and normalises in one is for multiples of four rows of scores, and up to 4096
/// keys (fused_softmax.py); otherwise kernels of PyTorch convert to fp32, scale (layers scale their queries and keys),
/// mask, normalise, and convert back.
void add_softmax(BlockBuilder& block, const std::array<std::int64_t, 4>& scores) {
  constexpr std::int64_t kRows = 4;
  constexpr std::int64_t kMostKeys = 4096;
  const auto add = [&](OperatorKind kind) { block.add(WorkPart::attention, kind, scores); };
  if (scores[0] * scores[1] % kRows == 0 && scores[3] <= kMostKeys) {
    add(OperatorKind::fused_softmax);
    return;
  }
  add(OperatorKind::permute);
  add(OperatorKind::permute);
  add(OperatorKind::attention_mask);
  add(OperatorKind::softmax);
  add(OperatorKind::permute);
}

/// Scores, softmax, dropout and values as kernels of their own; returns what selective recomputation runs again.
void add_unfused_attention(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  const std::int64_t keys = job.batch.sequence_length;
  const std::int64_t pairs = shape.batch * shape.heads;
  const std::array<std::int64_t, 4> scores{shape.batch, shape.heads, shape.sequence, keys};
  block.add(WorkPart::attention, OperatorKind::attention_scores, {pairs, shape.sequence, shape.head_dim, keys});
  add_softmax(block, scores);
  if (job.dropout > 0) block.add(WorkPart::attention, OperatorKind::dropout, scores);
  block.add(WorkPart::attention, OperatorKind::attention_values, {pairs, shape.sequence, keys, shape.head_dim});
}

/// Heads are put side by side again after unfused attention; backward, the gradients of queries, keys and values, too.
void add_head_copies(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  if (job.attention != AttentionKind::unfused) return;
  const std::int64_t width = shape.heads * shape.head_dim;
  block.add(WorkPart::attention, OperatorKind::permute, {shape.batch, shape.sequence, width, 1});
  block.backward(WorkPart::attention, OperatorKind::permute,
                 {shape.batch, shape.sequence, width + 2 * shape.kv_heads * shape.head_dim, 1});
}

void add_rotary(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  const OperatorKind kind = job.stack.rotary_passes ? OperatorKind::permute : OperatorKind::rotary;
  const std::int64_t heads = shape.heads + shape.kv_heads;
  const std::int64_t turned = rotary_dims(job.model);
  block.add(WorkPart::attention, kind, {shape.batch, shape.sequence, heads, turned},
            job.stack.rotary_passes.value_or(PassTimes{}));
  if (turned == shape.head_dim) return;
  // The other dimensions of a head are copied.
  block.add(WorkPart::attention, OperatorKind::permute, {shape.batch, shape.sequence, heads, shape.head_dim - turned});
}

/// Copies around fused attention: keys and values for each head of queries, gradients of the joined product. Joining is
/// limited by the multiprocessors: 1.02 ms for 201 million elements on an H200, as long as 3.8 copies on an A100 or
/// H100, whose memory is slower for its multiprocessors.
void add_attention_copies(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  const std::int64_t width = shape.heads * shape.head_dim;
  if (job.stack.repeats_keys && shape.kv_heads < shape.heads) {
    block.add(WorkPart::attention, OperatorKind::permute, {shape.batch, shape.sequence, 2 * width, 1});
  }
  if (job.stack.joins_gradients) {
    constexpr double kJoiningCopies = 3.8;
    block.backward(WorkPart::attention, OperatorKind::permute,
                   {shape.batch, shape.sequence, width + 2 * shape.kv_heads * shape.head_dim, 1}, kJoiningCopies);
  }
}

/// In a narrow type, a kernel of its own writes what a product reads, as stored and transposed for the gradient of the
/// weights (TransformerEngine's cast_transpose, in fp8 as many bytes as a copy): its input, and backward the gradient
/// of its output. A scale of its own largest value, which fp4 has besides those of 16 elements, reads the tensor once
/// more.
double cast_copies(const TrainingJob& job) {
  const bool own_scale = job.stack.scales_dynamically || job.dtype == DataType::fp4;
  const double read = bytes_of(DataType::bf16);
  return (read + 2 * bytes_of(job.dtype) + (own_scale ? read : 0)) / (2 * read);
}

void add_casts(BlockBuilder& block, const TrainingJob& job, std::int64_t tokens, std::int64_t inputs,
               std::int64_t outputs, double times = 1) {
  if (!is_narrow(job.dtype)) return;
  const double copies = cast_copies(job) * times;
  block.forward(WorkPart::elementwise, OperatorKind::permute, {1, tokens, inputs, 1}, copies);
  block.backward(WorkPart::elementwise, OperatorKind::permute, {1, tokens, outputs, 1}, copies);
}

/// Weights are cast once in an iteration with TransformerEngine, which is not counted, and in every pass with scales of
/// their own largest values.
void add_weight_casts(BlockBuilder& block, const TrainingJob& job, double weights) {
  if (!is_narrow(job.dtype) || !job.stack.scales_dynamically) return;
  block.add(WorkPart::elementwise, OperatorKind::permute, {static_cast<std::int64_t>(weights), 1, 1, 1},
            cast_copies(job));
}

/// Products of one input with matrices side by side. Apart, the gradients of the input are added. Returns the index of
/// the last forward product, on which collectives wait. Only Llama's relatives have them apart.
int add_products(BlockBuilder& block, const TrainingJob& job, WorkPart part, std::int64_t tokens,
                 std::initializer_list<std::int64_t> widths, double times = 1) {
  const bool joined = job.stack.joined_products || job.model.mlp != model::MlpKind::gated;
  const std::int64_t all = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
  add_casts(block, job, tokens, job.model.hidden, all, times);
  if (joined) {
    return block.add(part, OperatorKind::linear, {tokens, job.model.hidden, all, 1}, times);
  }
  block.backward(part == WorkPart::experts ? part : WorkPart::elementwise, OperatorKind::residual_add,
                 {1, tokens, job.model.hidden, 1}, times * static_cast<double>(widths.size() - 1));
  int last = 0;
  for (const std::int64_t width : widths) {
    last = block.add(part, OperatorKind::linear, {tokens, job.model.hidden, width, 1}, times);
  }
  return last;
}

/// The tokens to which one attends: a causal mask halves the work of fused attention.
enum class Sees : unsigned char { those_before, all };

void add_mixing(BlockBuilder& block, const TrainingJob& job, const RankShape& shape, Sees sees) {
  if (job.attention != AttentionKind::fused) return add_unfused_attention(block, job, shape);
  const double times = (sees == Sees::all ? 2.0 : 1.0) / job.parallel.cp;
  block.add(WorkPart::attention, OperatorKind::fused_attention,
            {shape.batch, job.batch.sequence_length, shape.heads, shape.head_dim}, times);
  if (job.dropout == 0) return;
  block.add(WorkPart::attention, OperatorKind::fused_dropout,
            {shape.batch, shape.heads, job.batch.sequence_length, job.batch.sequence_length}, times);
}

/// Of a decoder to the output of an encoder: as many tokens, queries of one and keys and values of the other.
void add_cross_attention(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  const std::int64_t width = shape.heads * shape.head_dim;
  const std::int64_t keys = shape.kv_heads * shape.head_dim;
  const TensorCollectives tensor(job, shape.activation_bytes);
  for (const std::int64_t outputs : {width, 2 * keys}) {
    add_casts(block, job, shape.tokens, shape.hidden, outputs);
    const int product = block.add(WorkPart::linear, OperatorKind::linear, {shape.tokens, shape.hidden, outputs, 1});
    tensor.column(block, product, last_index(block.work().backward));
  }
  add_mixing(block, job, shape, Sees::all);
  add_head_copies(block, job, shape);
  add_casts(block, job, shape.tokens, width, shape.hidden);
  const int output = block.add(WorkPart::linear, OperatorKind::linear, {shape.tokens, width, shape.hidden, 1});
  tensor.row(block, output, last_index(block.work().backward));
}

void add_attention(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  const std::int64_t width = shape.heads * shape.head_dim;
  const TensorCollectives tensor(job, shape.activation_bytes);
  const std::int64_t keys = shape.kv_heads * shape.head_dim;
  const int qkv = add_products(block, job, WorkPart::linear, shape.tokens, {width, keys, keys});
  tensor.column(block, qkv, last_index(block.work().backward));
  if (job.model.qkv_biases) {
    block.backward(WorkPart::elementwise, OperatorKind::bias_gradient,
                   {shape.batch, shape.sequence, width + 2 * shape.kv_heads * shape.head_dim, 1});
  }
  if (job.model.positions == model::PositionKind::rotary) add_rotary(block, job, shape);
  if (job.attention == AttentionKind::fused) add_attention_copies(block, job, shape);
  const auto first = block.work().forward.operators.size();
  add_mixing(block, job, shape, is_masked_language_model(job.model) ? Sees::all : Sees::those_before);
  if (job.recompute == Recompute::selective && job.attention == AttentionKind::unfused) {
    const auto& operators = block.work().forward.operators;
    block.work().recomputed.operators.assign(operators.begin() + static_cast<std::ptrdiff_t>(first), operators.end());
  }
  if (job.parallel.cp > 1) {
    const double bytes = 2.0 * static_cast<double>(shape.batch * job.batch.sequence_length) *
                         static_cast<double>(shape.kv_heads * shape.head_dim) *
                         bytes_of(type_of(job, OperatorKind::fused_attention));
    const CollectiveUse keys_and_values{
        CollectiveKind::all_gather, bytes, context_group(job), WorkPart::context_parallel, static_cast<int>(first), 1};
    CollectiveUse gradients = keys_and_values;
    gradients.kind = CollectiveKind::reduce_scatter;
    const int backward = last_index(block.work().backward);
    gradients.overlaps = backward;
    CollectiveUse again = keys_and_values;
    again.overlaps = backward;
    block.communicate(&BlockWork::forward, keys_and_values);
    block.communicate(&BlockWork::backward, again);
    block.communicate(&BlockWork::backward, gradients);
  }
  add_head_copies(block, job, shape);
  add_casts(block, job, shape.tokens, width, shape.hidden);
  const int output = block.add(WorkPart::linear, OperatorKind::linear, {shape.tokens, width, shape.hidden, 1});
  tensor.row(block, output, last_index(block.work().backward));
}

/// A feed-forward part of the given width on this rank, `copies` times with so many tokens each. Returns the indices of
/// its two products.
struct MlpProducts {
  int first = 0;
  int first_backward = 0;
  int second = 0;
  int second_backward = 0;
};

MlpProducts add_mlp(BlockBuilder& block, const TrainingJob& job, WorkPart part, std::int64_t tokens, std::int64_t width,
                    std::int64_t copies) {
  const bool gated = job.model.mlp == model::MlpKind::gated;
  const std::int64_t hidden = job.model.hidden;
  const auto times = static_cast<double>(copies);
  MlpProducts products;
  products.first = gated ? add_products(block, job, part, tokens, {width, width}, times)
                         : add_products(block, job, part, tokens, {width}, times);
  products.first_backward = last_index(block.work().backward);
  // Apart, SiLU moves 2 elements forward and 3 backward, the product 3 and 6; together they move 3 and 5.
  const PassTimes passes = gated && !job.stack.fused_gate ? PassTimes{5.0 / 3, 9.0 / 5} : PassTimes{};
  block.add(part == WorkPart::experts ? part : WorkPart::elementwise, gated ? OperatorKind::swiglu : OperatorKind::gelu,
            {1, tokens * copies, width, 1}, passes);
  add_casts(block, job, tokens, width, hidden, times);
  products.second = block.add(part, OperatorKind::linear, {tokens, width, hidden, 1}, times);
  products.second_backward = last_index(block.work().backward);
  return products;
}

void add_dense_mlp(BlockBuilder& block, const TrainingJob& job, const RankShape& shape, std::int64_t intermediate) {
  const TensorCollectives tensor(job, shape.activation_bytes);
  const std::int64_t width = intermediate / job.parallel.tp;
  const MlpProducts products = add_mlp(block, job, WorkPart::linear, shape.tokens, width, 1);
  if (job.model.mlp_biases) {
    const std::int64_t first = job.model.mlp == model::MlpKind::gated ? 2 * width : width;
    block.backward(WorkPart::elementwise, OperatorKind::bias_gradient, {shape.batch, shape.sequence, first, 1});
  }
  tensor.column(block, products.first, products.first_backward);
  tensor.row(block, products.second, products.second_backward);
}

/// The mixture of experts of this rank as one operator, as it may have been sampled: its router chooses among the
/// experts here, which get as many rows as this rank's tokens make.
Operator experts_operator(const TrainingJob& job, const RankShape& shape, Pass pass) {
  const model::ExpertShape& experts = *job.model.experts;
  const bool gated = job.model.mlp == model::MlpKind::gated;
  return {
      .kind = gated ? OperatorKind::gated_experts : OperatorKind::experts,
      .pass = pass,
      .dims = {shape.tokens, shape.hidden, experts.intermediate / job.parallel.tp, experts.experts / job.parallel.ep},
      .dtype = job.dtype,
      .rows = shape.tokens * experts.experts_per_token};
}

/// Router, dispatch to the ranks of the experts and back, and the experts of this rank with an equal share of tokens.
void add_experts(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  const model::ExpertShape& experts = *job.model.experts;
  const std::int64_t routed = shape.tokens * experts.experts_per_token;
  const std::int64_t local = experts.experts / job.parallel.ep;
  const std::int64_t tokens_each = std::max<std::int64_t>(1, routed / local);
  const std::size_t forward = block.work().forward.operators.size();
  const std::size_t backward = block.work().backward.operators.size();
  block.add(WorkPart::experts, OperatorKind::linear, {shape.tokens, shape.hidden, experts.experts, 1});
  const double bytes = shape.activation_bytes * static_cast<double>(experts.experts_per_token) /
                       (job.parallel.sequence_parallel ? job.parallel.tp : 1);
  const CollectiveUse exchange{CollectiveKind::all_to_all, bytes, expert_group(job), WorkPart::expert_parallel, -1, 1};
  for (int direction = 0; direction < 2; ++direction) {
    block.add(WorkPart::experts, OperatorKind::permute, {1, routed, shape.hidden, 1});
    block.communicate(&BlockWork::forward, exchange);
    block.communicate(&BlockWork::backward, exchange);
  }
  const MlpProducts products =
      add_mlp(block, job, WorkPart::experts, tokens_each, experts.intermediate / job.parallel.tp, local);
  const auto mark = [&](PassWork& work, Pass pass, std::size_t first) {
    work.experts = WholeUse{experts_operator(job, shape, pass), first, work.operators.size()};
  };
  mark(block.work().forward, Pass::forward, forward);
  mark(block.work().backward, Pass::backward, backward);
  const TensorCollectives tensor(job, shape.activation_bytes * static_cast<double>(experts.experts_per_token));
  tensor.column(block, products.first, products.first_backward);
  tensor.row(block, products.second, products.second_backward);
  if (experts.shared_intermediate > 0) {
    block.add(WorkPart::experts, OperatorKind::linear, {shape.tokens, shape.hidden, 1, 1});  // its gate
    add_dense_mlp(block, job, shape, experts.shared_intermediate);
  }
}

/// Sums gradients of the block's weights over microbatches in fp32. A product that does so at its end reads and writes
/// the sums, 8 of the 10 bytes that a kernel of its own moves; tiles of a wave end together, so nothing hides it.
void add_gradient_sums(BlockBuilder& block, const TrainingJob& job, double weights) {
  if (!job.stack.fused_gradient_sums && job.microbatches() == 1) return;
  constexpr double kFusedShare = 0.8;
  block.backward(WorkPart::gradient_sums, OperatorKind::gradient_sum, {static_cast<std::int64_t>(weights), 1, 1, 1},
                 job.stack.fused_gradient_sums ? kFusedShare : 1);
}

/// PyTorch's own loss knows no parts of a vocabulary: with tensor parallelism, Megatron's runs.
OperatorKind loss_kernels(const TrainingJob& job) {
  if (job.stack.loss == LossKind::fused) return OperatorKind::fused_loss;
  if (job.stack.loss == LossKind::online) return OperatorKind::online_loss;
  return job.stack.loss == LossKind::plain && job.parallel.tp == 1 ? OperatorKind::plain_loss
                                                                   : OperatorKind::cross_entropy;
}

/// Over parts of the vocabulary, maximum, sum of exponentials and the target's logit are summed, each in fp32;
/// transformers' loss gathers all logits.
void add_loss(BlockBuilder& block, const TrainingJob& job, const RankShape& shape) {
  const std::int64_t vocabulary = padded_vocabulary(job);
  const auto tokens = static_cast<double>(shape.tokens);
  if (job.stack.loss == LossKind::gathered) {
    const std::array<std::int64_t, 4> logits{shape.batch, shape.sequence, vocabulary, 1};
    // The gathered parts are copied next to each other.
    if (job.parallel.tp > 1) block.forward(WorkPart::cross_entropy, OperatorKind::permute, logits);
    block.add(WorkPart::cross_entropy, OperatorKind::gathered_loss, logits);
    const double bytes = tokens * static_cast<double>(vocabulary) * bytes_of(type_of(job, OperatorKind::cross_entropy));
    block.communicate(&BlockWork::forward,
                      {CollectiveKind::all_gather, bytes, tensor_group(job), WorkPart::tensor_parallel});
    return;
  }
  block.add(WorkPart::cross_entropy, loss_kernels(job), {shape.batch, shape.sequence, vocabulary / job.parallel.tp, 1});
  const CollectiveUse scalars{CollectiveKind::all_reduce, 4 * tokens, tensor_group(job), WorkPart::tensor_parallel};
  for (int sum = 0; sum < 3; ++sum) block.communicate(&BlockWork::forward, scalars);
}

/// A forward without its attention and every other product, the first among them.
PassWork without_kept_operators(const PassWork& forward) {
  PassWork again;
  int products = 0;
  for (const OperatorUse& use : forward.operators) {
    const bool attention = use.op.kind == OperatorKind::fused_attention || use.op.kind == OperatorKind::fused_dropout;
    const bool kept_product = use.op.kind == OperatorKind::linear && products++ % 2 == 0;
    if (!attention && !kept_product) again.operators.push_back(use);
  }
  return again;
}

/// Output matrices are not in fp8 or fp4: Megatron's is none of TransformerEngine's, torchtitan leaves it out.
void keep_in_16_bits(BlockWork& head) {
  for (PassWork* const pass : {&head.forward, &head.backward}) {
    for (OperatorUse& use : pass->operators) {
      if (is_narrow(use.op.dtype)) use.op.dtype = DataType::bf16;
    }
  }
}

}  // namespace

std::string_view name(WorkPart part) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"linear", "attention", "normalisation", "elementwise", "experts", "embedding", "cross entropy", "gradient sums",
       "recomputation", "tensor parallel", "context parallel", "expert parallel", "sharded weights",
       "sharded gradients", "pipeline", "host", "offload"});
  static_assert(kNames.size() == kWorkPartCount);
  return kNames[static_cast<std::size_t>(part)];
}

BlockWork layer_work(const TrainingJob& job, bool windowed) {
  const RankShape shape(job);
  BlockBuilder block(job, windowed ? job.model.window : 0);
  const RankParameters parameters = layer_parameters(job);
  add_weight_casts(block, job, parameters.total());
  add_norm(block, job, shape);
  add_attention(block, job, shape);
  add_residual(block, job, shape, job.model.output_bias);
  if (has_encoder_and_decoder(job.model)) {
    add_norm(block, job, shape);
    add_cross_attention(block, job, shape);
    add_residual(block, job, shape, job.model.output_bias);
  }
  add_norm(block, job, shape);
  if (job.model.experts) {
    add_experts(block, job, shape);
  } else {
    add_dense_mlp(block, job, shape, job.model.intermediate);
  }
  add_residual(block, job, shape, job.model.mlp_biases);
  if (job.recompute == Recompute::full || job.recompute == Recompute::operators) {
    block.work().recomputed =
        job.recompute == Recompute::full ? block.work().forward : without_kept_operators(block.work().forward);
    block.work().forward.checkpoint_s = job.stack.host.checkpoint_forward_s;
    block.work().recomputed.checkpoint_s = job.stack.host.checkpoint_backward_s;
  }
  add_gradient_sums(block, job, parameters.total());
  add_sharding(block, job, parameters.dense, replica_groups(job), true);
  add_sharding(block, job, parameters.experts, expert_replica_groups(job), true);
  return block.work();
}

BlockWork embedding_work(const TrainingJob& job) {
  const RankShape shape(job);
  BlockBuilder block(job);
  const std::int64_t streams = has_encoder_and_decoder(job.model) ? 2 : 1;
  block.add(WorkPart::embedding, OperatorKind::embedding,
            {streams * shape.tokens, padded_vocabulary(job) / job.parallel.tp, embedding_width(job.model), 1});
  const std::array<std::int64_t, 4> dims{shape.batch, shape.norm_sequence, shape.hidden, 1};
  if (job.model.positions == model::PositionKind::learned)
    block.add(WorkPart::embedding, OperatorKind::residual_add, dims);
  if (job.dropout > 0) block.add(WorkPart::embedding, OperatorKind::dropout, dims);
  add_gradient_sums(block, job, token_matrix_parameters(job));
  // One rank has tied weights once: its head moves them.
  const bool head_moves = job.model.tied_embeddings && job.parallel.pp == 1;
  if (!head_moves) add_sharding(block, job, token_matrix_parameters(job), replica_groups(job), false);
  const bool split = job.parallel.sequence_parallel;
  const CollectiveUse sum{split ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                          shape.activation_bytes,
                          tensor_group(job),
                          WorkPart::tensor_parallel,
                          -1,
                          1};
  block.communicate(&BlockWork::forward, sum);
  if (split) {
    CollectiveUse gather = sum;
    gather.kind = CollectiveKind::all_gather;
    block.communicate(&BlockWork::backward, gather);
  }
  return block.work();
}

BlockWork head_work(const TrainingJob& job) {
  const RankShape shape(job);
  BlockBuilder block(job);
  if (job.model.head_transform) {  // whole on every tp rank
    block.add(WorkPart::linear, OperatorKind::linear, {shape.tokens, shape.hidden, shape.hidden, 1});
    block.add(WorkPart::elementwise, OperatorKind::gelu, {shape.batch, shape.sequence, shape.hidden, 1});
  }
  add_norm(block, job, shape);
  const std::int64_t vocabulary = padded_vocabulary(job) / job.parallel.tp;
  const int product =
      block.add(WorkPart::linear, OperatorKind::linear, {shape.tokens, embedding_width(job.model), vocabulary, 1});
  keep_in_16_bits(block.work());
  TensorCollectives(job, shape.activation_bytes).column(block, product, last_index(block.work().backward));
  add_gradient_sums(block, job, token_matrix_parameters(job));
  add_sharding(block, job, token_matrix_parameters(job), replica_groups(job), false);  // its backward follows at once
  add_loss(block, job, shape);
  return block.work();
}

std::vector<CollectiveUse> message_work(const TrainingJob& job, int stage) {
  // With an encoder and a decoder both streams pass every stage.
  const double bytes = RankShape(job).activation_bytes * (has_encoder_and_decoder(job.model) ? 2 : 1);
  const bool split = job.parallel.tp > 1 && (job.split_messages || job.parallel.sequence_parallel);
  CollectiveUse send{CollectiveKind::send, split ? bytes / job.parallel.tp : bytes, neighbour_group(job, stage),
                     WorkPart::pipeline};
  std::vector<CollectiveUse> work{send};
  if (split && !job.parallel.sequence_parallel) {
    work.push_back({CollectiveKind::all_gather, bytes, tensor_group(job), WorkPart::pipeline});
  }
  return work;
}

}  // namespace lowgear::estimator

#include "estimating/estimator/memory/activation_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"
#include "base/core/units.h"

namespace lowgear::estimator {

namespace {

constexpr double kFp32Bytes = 4;
constexpr double kMaskBytes = 1;

/// Sizes of a rank's part, in elements of one token unless stated.
struct Widths {
  explicit Widths(const TrainingJob& job)
      : tp(job.parallel.tp),
        element(activation_bytes(job.dtype)),
        product_input(is_narrow(job.dtype) ? bytes_of(job.dtype) : element),
        hidden(static_cast<double>(job.model.hidden)),
        queries(static_cast<double>(job.model.heads * job.model.head_dim) / tp),
        keys(static_cast<double>(job.model.kv_heads * job.model.head_dim) / tp),
        heads(static_cast<double>(job.model.heads) / tp),
        mask(job.dropout > 0 ? kMaskBytes : 0),
        split(job.parallel.sequence_parallel ? tp : 1) {}

  double tp;
  double element;        ///< bytes
  double product_input;  ///< bytes of an element that a layer's matrix product keeps for the gradient of its weights
  double hidden;
  double queries;
  double keys;
  double heads;
  double mask;   ///< bytes of an element's dropout mask, 0 without dropout
  double split;  ///< ranks among which tensors of the whole width are divided along the sequence
};

/// Elements inside an MLP of this width that go into its activation: two with a gate.
double activation_inputs(const TrainingJob& job, std::int64_t intermediate) {
  return (job.model.mlp == model::MlpKind::gated ? 2.0 : 1.0) * static_cast<double>(intermediate) / job.parallel.tp;
}

/// Bytes inside an MLP of this width that the backward needs: input of the activation, and its output, which a product
/// reads; between kernels of their own, the output of SiLU, too.
double mlp_inside_bytes(const TrainingJob& job, const Widths& widths, std::int64_t intermediate) {
  const bool apart = job.model.mlp == model::MlpKind::gated && !job.stack.fused_gate;
  const double between = apart ? static_cast<double>(intermediate) / widths.tp : 0;
  return widths.element * (activation_inputs(job, intermediate) + between) +
         widths.product_input * static_cast<double>(intermediate) / widths.tp;
}

/// Bytes of a token in a decoder's attention to an encoder's output, which all layers keep once: the norm's input and
/// output, queries, keys and values, input of the output projection.
double cross_attention_bytes(const TrainingJob& job, const Widths& widths) {
  if (!has_encoder_and_decoder(job.model)) return 0;
  double bytes = (widths.product_input + widths.element) * widths.hidden / widths.split;
  bytes += widths.element * (widths.queries + 2 * widths.keys) + widths.product_input * widths.queries;
  if (job.attention == AttentionKind::fused) bytes += kFp32Bytes * widths.heads;
  return bytes + widths.mask * widths.hidden / widths.split;
}

/// Bytes of a token in attention without its scores: input, queries, keys, values, input of the output projection.
double attention_bytes(const TrainingJob& job, const Widths& widths) {
  double bytes = widths.product_input * (widths.hidden / widths.split + widths.queries);
  bytes += widths.element * (widths.queries + 2 * widths.keys);
  if (job.model.qk_norms) bytes += widths.element * (widths.queries + widths.keys);
  if (job.attention == AttentionKind::fused) {
    bytes += kFp32Bytes * widths.heads;  // log of the sum of exponentials
    if (job.stack.repeats_keys) bytes += 2 * widths.element * (widths.queries - widths.keys);
    // It keeps its output for its own backward, which is the projection's input unless that is kept in fp8.
    if (widths.product_input != widths.element) bytes += widths.element * widths.queries;
  }
  return bytes + widths.mask * widths.hidden / widths.split;
}

/// Bytes of a token in a layer of experts, each rank of an expert parallel group having its even share of tokens.
/// Inputs that have been dispatched are whole on every tp rank of an expert.
double expert_bytes(const TrainingJob& job, const Widths& widths) {
  const model::ExpertShape& experts = *job.model.experts;
  const auto copies = static_cast<double>(experts.experts_per_token);
  double bytes = 2 * kFp32Bytes * static_cast<double>(experts.experts) / widths.split;       // logits, probabilities
  bytes += copies * widths.hidden * (widths.product_input + widths.element / widths.split);  // dispatched; combined
  bytes += copies * mlp_inside_bytes(job, widths, experts.intermediate);
  return bytes + mlp_inside_bytes(job, widths, experts.shared_intermediate);
}

double mlp_bytes(const TrainingJob& job, const Widths& widths) {
  // The router of experts reads its input in bf16.
  double bytes = (job.model.experts ? widths.element : widths.product_input) * widths.hidden / widths.split;
  bytes += job.model.experts ? expert_bytes(job, widths) : mlp_inside_bytes(job, widths, job.model.intermediate);
  return bytes + widths.mask * widths.hidden / widths.split;
}

/// The widest tensor of a token that a backward makes a gradient of, in elements.
double widest(const TrainingJob& job, const Widths& widths) {
  const auto mlp_inside = [&](std::int64_t intermediate) {
    return activation_inputs(job, intermediate) + static_cast<double>(intermediate) / widths.tp;
  };
  const double attention = widths.queries + 2 * widths.keys;
  if (!job.model.experts) return std::max(attention, mlp_inside(job.model.intermediate));
  const model::ExpertShape& experts = *job.model.experts;
  const double inside = static_cast<double>(experts.experts_per_token) * mlp_inside(experts.intermediate);
  return std::max({attention, inside, mlp_inside(experts.shared_intermediate)});
}

double logits_of_rank(const TrainingJob& job) {
  const double all = tokens_of_rank(job) * static_cast<double>(padded_vocabulary(job));
  return job.stack.loss == LossKind::gathered ? all : all / job.parallel.tp;
}

/// Bytes of a logit in the loss: what it keeps for its backward, and what that needs besides at its worst moment.
struct LossBytes {
  double kept = 0;
  double more = 0;
};

/// Megatron's writes its gradient over the probabilities, from logits as the product wrote them. PyTorch's makes the
/// gradients of the loss's and of the softmax's input one after the other; over parts of the vocabulary (loss_parallel)
/// the targets' gradient, the exponentials and their sum beside the logarithms that it keeps. The fused loss keeps the
/// logits themselves, and writes their gradient beside them; the online loss over them.
LossBytes loss_bytes(const TrainingJob& job) {
  const double element = activation_bytes(job.dtype);
  switch (job.stack.loss) {
    case LossKind::fused:
      return {element, element};
    case LossKind::online:
      return {element, 0};
    case LossKind::plain:
      if (job.parallel.tp > 1) return {kFp32Bytes, 3 * kFp32Bytes};
      return {kFp32Bytes, element + 2 * kFp32Bytes};
    case LossKind::gathered:
      return {kFp32Bytes, element + 2 * kFp32Bytes};
    case LossKind::split:
      break;
  }
  return {kFp32Bytes, element + kFp32Bytes};
}

}  // namespace

double activation_bytes(DataType dtype) { return std::max(bytes_of(dtype), 2.0); }

double tokens_of_rank(const TrainingJob& job) {
  return static_cast<double>(job.batch.micro) * static_cast<double>(job.batch.sequence_length) / job.parallel.cp;
}

double kept_without_recompute(const TrainingJob& job) {
  const Widths widths(job);
  // Attention and MLP side by side have one input between them.
  const double norm_inputs = job.model.parallel_residual ? 1 : 2;
  // As single operations they keep the input in fp32, and what the weight multiplies.
  const bool passes = job.model.norm == model::NormKind::rms_norm && !job.stack.fused_norms;
  const double kept = passes ? kFp32Bytes + widths.element : widths.element;
  const double norms = norm_inputs * kept * widths.hidden / widths.split;
  return tokens_of_rank(job) *
             (norms + attention_bytes(job, widths) + cross_attention_bytes(job, widths) + mlp_bytes(job, widths)) +
         score_bytes(job);
}

double kept_with_operators(const TrainingJob& job) {
  const Widths widths(job);
  const bool gated = job.model.mlp == model::MlpKind::gated;
  const std::int64_t intermediate = job.model.experts
                                        ? job.model.experts->experts_per_token * job.model.experts->intermediate +
                                              job.model.experts->shared_intermediate
                                        : job.model.intermediate;
  const double hidden = widths.hidden / widths.split;
  double elements = hidden + widths.queries;  // input, attention
  if (gated && !job.stack.joined_products) {
    // Products of queries, keys, values, output, gate, up and down: the first, third, fifth and last.
    elements += widths.queries + widths.keys + static_cast<double>(intermediate) / widths.tp + hidden;
  } else {
    elements += widths.queries + 2 * widths.keys + activation_inputs(job, intermediate);
  }
  return tokens_of_rank(job) * (widths.element * elements + kFp32Bytes * widths.heads);
}

double score_bytes(const TrainingJob& job) {
  if (job.attention == AttentionKind::fused) return 0;
  const Widths widths(job);
  const double attentions = has_encoder_and_decoder(job.model) ? 2 : 1;
  const double scores =
      attentions * tokens_of_rank(job) * widths.heads * static_cast<double>(job.batch.sequence_length);
  // Output of the softmax; with dropout its mask and what it leaves, too.
  return scores * (widths.element + (job.dropout > 0 ? widths.mask + widths.element : 0));
}

double layer_input_bytes(const TrainingJob& job) {
  const Widths widths(job);
  return tokens_of_rank(job) * widths.element * widths.hidden / widths.split;
}

double embedding_activation_bytes(const TrainingJob& job) {
  const Widths widths(job);
  const double norm = job.model.embedding_norm ? widths.element : 0;
  return tokens_of_rank(job) * widths.hidden / widths.split * (widths.mask + norm);
}

double head_activation_bytes(const TrainingJob& job) { return 2 * layer_input_bytes(job) + kept_logit_bytes(job); }

double kept_logit_bytes(const TrainingJob& job) { return loss_bytes(job).kept * logits_of_rank(job); }

double layer_workspace_bytes(const TrainingJob& job) {
  const Widths widths(job);
  const double tokens = tokens_of_rank(job);
  double bytes = tokens * widths.element * (2 * widths.hidden / widths.split + widest(job, widths));
  if (job.parallel.sequence_parallel) bytes += tokens * widths.element * widths.hidden;
  if (job.parallel.cp > 1) bytes += 2 * tokens * widths.element * 2 * widths.keys;
  if (job.recompute == Recompute::full) return bytes + kept_without_recompute(job);
  if (job.recompute == Recompute::operators) return bytes + kept_without_recompute(job) - kept_with_operators(job);
  return bytes + (job.recompute == Recompute::selective ? score_bytes(job) : 0);
}

double head_workspace_bytes(const TrainingJob& job) { return loss_bytes(job).more * logits_of_rank(job); }

namespace {

/// Microbatches in flight on a rank in 1F1B.
int held_by_rank(const TrainingJob& job, std::size_t rank) {
  return std::min(job.parallel.pp - static_cast<int>(rank), static_cast<int>(job.microbatches()));
}

}  // namespace

std::vector<double> activation_bytes_of_ranks(const TrainingJob& job, const MemoryEstimate& memory) {
  std::vector<double> bytes;
  for (std::size_t rank = 0; rank < memory.ranks.size(); ++rank) {
    bytes.push_back(memory.ranks[rank].activations / held_by_rank(job, rank) * (1 + kFragmentationShare));
  }
  return bytes;
}

std::vector<int> activations_that_fit(const TrainingJob& job, const MemoryEstimate& memory) {
  if (job.schedule != "1f1b" || job.parallel.virtual_stages > 1) {
    throw InputError("activations that fit are counted only for schedule 1f1b with one stage per rank; choose 1f1b");
  }
  const auto microbatches = static_cast<int>(job.microbatches());
  const std::vector<double> bytes = activation_bytes_of_ranks(job, memory);
  std::vector<int> fit;
  for (std::size_t rank = 0; rank < memory.ranks.size(); ++rank) {
    const RankMemory& used = memory.ranks[rank];
    const double free = memory.capacity - used.total();
    if (free < 0) {
      throw InputError(
          fmt::format("the job does not fit: pipeline rank {} needs {:.1f} GiB more than it has", rank, -free / kGiB));
    }
    const int held = held_by_rank(job, rank);
    // Compared as doubles first: next to no activation leaves room for more than an int counts.
    fit.push_back(held + static_cast<int>(std::min<double>(microbatches - held, free / bytes[rank])));
  }
  return fit;
}

}  // namespace lowgear::estimator

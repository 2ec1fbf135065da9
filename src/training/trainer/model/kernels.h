#pragma once

#include <ATen/ATen.h>

#include <cstdint>

/// The innermost computations for which libtorch has no single operation. There are two implementations, of which a
/// build has one: kernels_aten.cpp composes libtorch's operations, for any device; kernels_cuda.cu has a kernel for
/// each on CUDA devices, as they are bound by memory traffic and composed ones move several times as much.
namespace lowgear::trainer::kernels {

/// Heads of queries, keys and values in one tensor [batch, time, (heads + 2 kv_heads) head_dim].
struct AttentionHeads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool by_head = false;  ///< query, key and value of each head in turn, of as many; else all queries, keys, values
};

/// Splits `qkv` into queries [batch, time, heads, head_dim], keys and values [batch, time, kv_heads, head_dim]; the
/// first 2 n dimensions of queries and keys are turned by the rotary embedding: dimension i together with i + n, at
/// time t by the angle whose cosine and sine are cosine[t][i] and sine[t][i] (fp32, [at least time, n]).
void split_and_rotate(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                      const AttentionHeads& heads, at::Tensor& query, at::Tensor& key, at::Tensor& value);
/// The gradient of `qkv` from those of queries, keys and values.
[[nodiscard]] at::Tensor split_and_rotate_backward(const at::Tensor& query_gradient, const at::Tensor& key_gradient,
                                                   const at::Tensor& value_gradient, const at::Tensor& cosine,
                                                   const at::Tensor& sine, const AttentionHeads& heads);

/// silu(gate) * up for gate and up side by side, [..., 2 n] -> [..., n].
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate_up);
[[nodiscard]] at::Tensor swiglu_backward(const at::Tensor& gate_up, const at::Tensor& output_gradient);

/// softmax(scale * scores) over the keys up to each query, zero for later ones, for scores [..., time, time].
[[nodiscard]] at::Tensor masked_softmax(const at::Tensor& scores, double scale);
/// The gradient of the scores from that of the weights, which masked_softmax gave.
[[nodiscard]] at::Tensor masked_softmax_backward(const at::Tensor& weights, const at::Tensor& weight_gradient,
                                                 double scale);

/// sum += output_gradientᵀ · input, for [rows, out] and [rows, in]; `sum` is [out, in], fp32.
void add_weight_gradient(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& input);

/// sum += the sum of `rows` [rows, width] over the rows; `sum` is [width], fp32.
void add_row_sum(const at::Tensor& sum, const at::Tensor& rows);

// Those of norms and the loss are CUDA's alone: norm_and_loss.h has both.

/// Weight and bias of a norm, or the fp32 sums of their gradients. RMS norm has no bias, which is undefined then.
struct NormWeights {
  at::Tensor weight;
  at::Tensor bias;
};

/// What a norm computes, with what its backward pass needs.
struct NormalisedRows {
  at::Tensor sum;         ///< what was normalised
  at::Tensor normalised;  ///< with weight and bias
  at::Tensor scales;      ///< of each row, fp32: 1 / sqrt(variance + epsilon)
  at::Tensor means;       ///< of each row, fp32; undefined for RMS norm
};

/// residual + branch, and that normalised over the last dimension; an undefined branch adds nothing.
[[nodiscard]] NormalisedRows add_and_normalise(const at::Tensor& residual, const at::Tensor& branch,
                                               const NormWeights& weights, double epsilon);
/// The gradient of `rows.sum` from that of the normalised rows and, if defined, that of the sum in its other uses. Adds
/// the gradients of weight and bias to `sums` where defined; of `rows`, `normalised` is not needed.
[[nodiscard]] at::Tensor add_and_normalise_backward(const NormalisedRows& rows, const NormWeights& weights,
                                                    const at::Tensor& normalised_gradient,
                                                    const at::Tensor& sum_gradient, const NormWeights& sums);

/// Of each row of logits, fp32: sums · exp(largest) is the sum of their exponentials.
struct LogitSums {
  at::Tensor largest;
  at::Tensor sums;
  at::Tensor chosen;  ///< logit of the target; 0 where another rank has it
};

/// `logits` [rows, this rank's part of the vocabulary, which begins with `first`], `targets` [rows].
[[nodiscard]] LogitSums cross_entropy(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first);
/// Overwrites the logits by their gradients, from that of the mean over all rows of log_sums - chosen. `log_sums` has
/// the logarithms of the sums of exponentials over the whole vocabulary.
void cross_entropy_backward(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                            const at::Tensor& log_sums, const at::Tensor& gradient);

/// One step of AdamW on flat tensors.
struct AdamWStep {
  double learning_rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  double gradient_scale = 1;       ///< the gradient counts times this
  double mean_correction = 1;      ///< 1 - beta1^step
  double variance_correction = 1;  ///< 1 - beta2^step
};

/// Updates `master`, `mean` and `variance` (fp32); the first `decaying` elements decay.
void adamw(const at::Tensor& master, const at::Tensor& mean, const at::Tensor& variance, const at::Tensor& gradient,
           std::int64_t decaying, const AdamWStep& step);

/// Sum of the squares of fp32 values, added in fp64: one element, the same each time.
[[nodiscard]] at::Tensor sum_of_squares(const at::Tensor& values);

/// Adds to `sums` [3] (fp64) the sums of squares of AdamW's first moment, of what a step changes by its learning rate
/// without weight decay, and of the master values. Of `step`, the corrections and epsilon count. Reads each element
/// once; the same sums each time.
void add_state_squares(const at::Tensor& sums, const at::Tensor& master, const at::Tensor& mean,
                       const at::Tensor& variance, const AdamWStep& step);

}  // namespace lowgear::trainer::kernels

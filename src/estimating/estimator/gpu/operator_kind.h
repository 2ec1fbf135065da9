#pragma once

#include <string_view>

namespace lowgear::estimator {

/// Kinds of computation that training a transformer is made of, as they are sampled and predicted. The comment says
/// what an Operator's `dims` (operators.h) are.
enum class OperatorKind : unsigned char {
  embedding,         ///< {tokens, vocabulary of this rank, hidden}
  layer_norm,        ///< {batch, sequence, width}
  rms_norm,          ///< {batch, sequence, width}
  residual_add,      ///< {batch, sequence, width}
  linear,            ///< {tokens, inputs, outputs}; backward is input and weight gradient
  rotary,            ///< {batch, sequence, heads, head_dim}
  attention_scores,  ///< {batch * heads, sequence, head_dim, sequence}: Q K^T
  attention_values,  ///< {batch * heads, sequence, sequence, head_dim}: P V
  attention_mask,    ///< {batch, heads, sequence, sequence}
  softmax,           ///< {batch, heads, sequence, sequence}
  fused_softmax,     ///< the same: scale, causal mask and softmax in one kernel
  fused_attention,   ///< {batch, sequence, heads, head_dim}, causal
  gelu,              ///< {batch, sequence, width}
  swiglu,            ///< {batch, sequence, width}: of the product's output
  cross_entropy,     ///< {batch, sequence, vocabulary of this rank}
  optimizer,         ///< {parameters of this rank}: AdamW with fp32 master weights
  dropout,           ///< {batch, sequence, width}, or {batch, heads, sequence, sequence} of attention
  permute,           ///< {batch, sequence, width}: rows to and from the experts that they go to; also plain copies
  bias_gradient,     ///< {batch, sequence, width}: sum over tokens
  gradient_sum,      ///< {parameters}: adds the gradients of one microbatch to those of the iteration, in fp32
  gathered_loss,     ///< {batch, sequence, vocabulary}: that of Hugging Face transformers, on all logits, in fp32
  plain_loss,        ///< the same: PyTorch's cross entropy in fp32, no copies of logits
  fused_dropout,     ///< {batch, heads, sequence, sequence}: what dropout adds to a fused attention kernel
  experts,           ///< {tokens, hidden, width, experts of this rank}: router, dispatch, experts with GELU, sum
  gated_experts,     ///< the same with SwiGLU
};
inline constexpr int kOperatorKindCount = 25;

[[nodiscard]] std::string_view name(OperatorKind kind);

enum class Pass : unsigned char { forward, backward };

}  // namespace lowgear::estimator

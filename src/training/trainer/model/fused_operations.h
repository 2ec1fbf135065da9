#pragma once

#include "training/trainer/model/kernels.h"
#include "training/trainer/transport/compat.h"

/// The kernels as operations that autograd knows.
namespace lowgear::trainer {

struct RotatedHeads {
  at::Tensor query;  ///< [batch, heads, time, head_dim]
  at::Tensor key;    ///< [batch, kv_heads, time, head_dim]
  at::Tensor value;  ///< [batch, kv_heads, time, head_dim]
};

/// See kernels::split_and_rotate.
[[nodiscard]] RotatedHeads split_and_rotate(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                                            const kernels::AttentionHeads& heads);

/// silu(gate) * up, see kernels::swiglu. Keeps nothing but its input for the backward pass.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate_up);

}  // namespace lowgear::trainer

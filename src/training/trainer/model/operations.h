#pragma once

#include <cstdint>

#include "training/trainer/model/kernels.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/compat.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

// The operations of tensor parallelism (Shoeybi et al. 2019, "Megatron-LM"), on a group of ranks that share a layer.
// On a group of one they are the plain operations.

/// The same on every rank; the gradients of all ranks are summed on the way back. Before a layer split by columns.
[[nodiscard]] at::Tensor enter_parallel(const at::Tensor& input, Collective& group);
/// The sum over the ranks; its gradient passes unchanged. After a layer split by rows.
[[nodiscard]] at::Tensor leave_parallel(const at::Tensor& input, Collective& group);

/// Rows of the table for token ids [...] -> [..., hidden]. `table.value` holds the rows of this rank's part of the
/// vocabulary; the gradient goes straight to `table.gradient`. `anchor` is any tensor that requires a gradient: it
/// makes autograd call back, as ids have no gradient themselves.
[[nodiscard]] at::Tensor embed(const at::Tensor& ids, Parameter& table, const at::Tensor& anchor, Collective& group);

/// Ids within this rank's rows of a table that is split among the ranks, and where ids are of other ranks.
struct LocalIds {
  at::Tensor ids;
  at::Tensor foreign;  ///< undefined on a group of one
};
[[nodiscard]] LocalIds local_ids(const at::Tensor& ids, std::int64_t rows, const Collective& group);

/// Hands a pointer to a backward pass. What it points to outlives every backward pass: models own both.
template <typename Object>
[[nodiscard]] std::int64_t handle(Object& object) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(&object));
}

template <typename Object>
[[nodiscard]] Object& object_of(const at::IValue& value) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): autograd keeps numbers, so that is how a pointer goes through it
  return *reinterpret_cast<Object*>(static_cast<std::uintptr_t>(value.toInt()));
}

// The kernels as operations that autograd knows.

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

#pragma once

#include <cstdint>

#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

/// The operations of tensor parallelism (Shoeybi et al. 2019, "Megatron-LM"), on a group of ranks that share a layer.
/// On a group of one they are the plain operations.
namespace lowgear::trainer {

/// The same on every rank; the gradients of all ranks are summed on the way back. Before a layer split by columns.
[[nodiscard]] at::Tensor enter_parallel(const at::Tensor& input, Collective& group);
/// The sum over the ranks; its gradient passes unchanged. After a layer split by rows.
[[nodiscard]] at::Tensor leave_parallel(const at::Tensor& input, Collective& group);

/// Rows of the table for token ids [...] -> [..., hidden]. `table.value` holds the rows of this rank's part of the
/// vocabulary; the gradient goes straight to `table.gradient`. `anchor` is any tensor that requires a gradient: it
/// makes autograd call back, as ids have no gradient themselves.
[[nodiscard]] at::Tensor embed(const at::Tensor& ids, Parameter& table, const at::Tensor& anchor, Collective& group);

/// Mean over all positions of -log softmax(logits)[target]. `logits` [rows, part of the vocabulary], targets [rows].
/// Computed in fp32.
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, Collective& group);

}  // namespace lowgear::trainer

#pragma once

#include <cstdint>
#include <vector>

#include "training/trainer/engine/optimizer.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Sums of squares over the trained elements of a block of the model, 0 where it is frozen.
struct BlockSquares {
  double gradient = 0;  ///< of AdamW's first moment: the gradient, averaged over some 1 / (1 - beta1) steps
  double update = 0;    ///< of what a step changes, without weight decay, by its learning rate
  double weight = 0;
};

/// The squares of each block after a step, [blocks, 3] in fp64 on the device, which is not waited for: a sample costs a
/// pass over the optimizer's state, and no step waits until the host has read it. A meeting of all ranks, on which they
/// are the same.
[[nodiscard]] at::Tensor block_squares(const ParameterStore& store, AdamW& optimizer, const Communicators& ranks,
                                       std::int64_t blocks);

/// Zeros of that shape.
[[nodiscard]] at::Tensor no_block_squares(const ParameterStore& store, std::int64_t blocks);

/// On the host. Waits for the device.
[[nodiscard]] std::vector<BlockSquares> read_block_squares(const at::Tensor& sums);
/// Back again, [blocks, 3] in host memory.
[[nodiscard]] at::Tensor block_squares_tensor(const std::vector<BlockSquares>& squares);

}  // namespace lowgear::trainer

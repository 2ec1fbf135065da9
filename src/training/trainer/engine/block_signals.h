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

  BlockSquares& operator+=(const BlockSquares& other);
};

/// The squares of each block, after a step. A meeting of all ranks, on which they are the same. Costs one pass over the
/// optimizer's state.
[[nodiscard]] std::vector<BlockSquares> block_squares(const ParameterStore& store, AdamW& optimizer,
                                                      const Communicators& ranks, std::int64_t blocks);

}  // namespace lowgear::trainer

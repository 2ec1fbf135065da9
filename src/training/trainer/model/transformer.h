#pragma once

#include <cstdint>
#include <memory>

#include "training/trainer/model/layers.h"

namespace lowgear::trainer {

/// One layer of a transformer: activations [batch, time, hidden] to the same shape. Parameters are declared when it is
/// made and usable once the store is allocated and `bind` was called, anew whenever the store freezes others.
class TransformerBlock {
 public:
  virtual ~TransformerBlock() = default;
  virtual void bind() = 0;
  [[nodiscard]] virtual Activations forward(const Activations& input) = 0;
};

/// The layer that the model's description says.
[[nodiscard]] std::unique_ptr<TransformerBlock> make_block(BlockContext context, std::int64_t layer);

}  // namespace lowgear::trainer

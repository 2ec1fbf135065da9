#pragma once

#include <ATen/ATen.h>

#include "training/trainer/model/attention.h"
#include "training/trainer/model/layers.h"

namespace lowgear::trainer {

/// A norm and the attention after it, up to the attention's last product.
class AttentionPart {
 public:
  /// `norm` is null where the attention has its input as it is. All outlive the part and its backward passes.
  AttentionPart(const BlockContext& context, const Norm* norm, AttentionLayer& attention)
      : recomputes_(context.recompute == launcher::Recompute::attention), norm_(norm), attention_(&attention) {}

  /// The sum of the activations, and what the attention adds to it. `beside`: see AttentionLayer. If the part is
  /// recomputed, the backward has the sum and `beside` alone, and computes the rest again.
  [[nodiscard]] Activations operator()(const Activations& entered, const at::Tensor& beside) const;

  /// The sum, and the last product of the attention.
  [[nodiscard]] Activations up_to_product(const Activations& entered, const at::Tensor& beside,
                                          LinearOutput product) const;

 private:
  bool recomputes_;
  const Norm* norm_;
  AttentionLayer* attention_;
};

}  // namespace lowgear::trainer

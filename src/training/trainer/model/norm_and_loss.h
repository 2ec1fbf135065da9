#pragma once

#include <cstdint>

#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

// What autograd cannot differentiate at the speed of the memory. There are two implementations, of which a build has
// one: norm_and_loss_aten.cpp composes libtorch's operations; norm_and_loss_cuda.cpp has kernels for both passes.

/// Activations between two layers: what runs past the layers, and what the last one adds, which the next norm adds up.
struct Activations {
  at::Tensor residual;
  at::Tensor branch = {};  ///< undefined: nothing to add

  [[nodiscard]] at::Tensor sum() const { return branch.defined() ? residual + branch : residual; }
};

struct NormParameters {
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;  ///< null: RMS norm
  double epsilon = 0;
};

struct NormalisedSum {
  at::Tensor sum;
  at::Tensor normalised;
};

/// The sum of the activations, and that normalised over its last dimension: RMS norm or layer norm, in fp32.
[[nodiscard]] NormalisedSum add_and_normalise(const Activations& activations, const NormParameters& parameters);

/// Of a position that does not count in the loss.
inline constexpr std::int64_t kNoTarget = -100;

/// Mean over all positions of -log softmax(logits)[target], 0 where the target is kNoTarget, in fp32. `logits` [rows,
/// part of the vocabulary], targets [rows]. On GPUs, the backward pass overwrites the logits.
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, Collective& group);

}  // namespace lowgear::trainer

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/core/error.h"
#include "estimating/sampling/sampled_operator.h"

namespace lowgear::trainer {

/// The tensors of an operator do not fit into the device's memory.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// The tensors of one operator of the given sizes, filled with random values, and what each pass runs on them.
class OperatorWorkload {
 public:
  /// Throws OutOfMemory, and Error where libtorch refuses the operator on this device.
  OperatorWorkload(sampling::SampledOperator op, const sampling::OperatorShape& shape, sampling::SampleType type,
                   bool gpu, int local_rank);

  [[nodiscard]] int passes() const { return backward_ ? 2 : 1; }
  /// Runs pass 0 (forward) or 1 (backward); on a GPU, begins to. Throws as the constructor does.
  void run(int pass) const;

 private:
  std::function<void()> forward_;
  std::function<void()> backward_;  ///< empty for the optimizer
};

/// Weights of a mixture of experts on one of the ranks that share the experts: it has the first of them.
struct ExpertWeights {
  at::Tensor router;               ///< [experts of all ranks, hidden]
  std::vector<at::Tensor> first;   ///< of each expert here [width, hidden]; gated [2 width, hidden], the gates first
  std::vector<at::Tensor> second;  ///< of each expert here [hidden, width]
  bool gated = false;              ///< silu(gate) * value in place of GELU
};

/// A mixture of experts as one rank runs it, with autograd. The router weighs all experts of a token by a softmax and
/// chooses those of largest weight (no sum of weights is made 1). The tokens of each expert here are put next to each
/// other, pass its two products, and are added to the output times their weights. What other ranks' experts make of
/// the tokens is not added. No token is dropped.
class ExpertLayer {
 public:
  /// `input` is [tokens, hidden]. How many tokens each expert gets is read from the device here, once, so that
  /// forward() does not wait for it.
  ExpertLayer(ExpertWeights weights, at::Tensor input, std::int64_t experts_per_token);

  [[nodiscard]] at::Tensor forward() const;
  /// The tensors with gradients: input, router, and both products' weights.
  [[nodiscard]] std::vector<at::Tensor> variables() const;

 private:
  /// Of each token: weights and numbers of its experts, [tokens, experts per token].
  struct Routing {
    at::Tensor weights;
    at::Tensor experts;
  };
  [[nodiscard]] Routing route() const;
  [[nodiscard]] at::Tensor activate(const at::Tensor& inner) const;

  ExpertWeights weights_;
  at::Tensor input_;
  std::int64_t experts_per_token_;
  std::vector<std::int64_t> rows_;  ///< of each expert here
};

}  // namespace lowgear::trainer

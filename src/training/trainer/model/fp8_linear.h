#pragma once

#include <cstdint>

#include "training/trainer/fp8/matrix.h"

namespace lowgear::trainer {

struct LinearWeight;

/// How the gradients of weights are computed in layers whose other two products are in fp8.
enum class WeightGradientType : unsigned char {
  fp8,
  bf16  ///< slower, and without the rounding of fp8 in what the optimizer sums up over steps
};

/// Which linear layers of a model compute in fp8, and whether they do now: those of the blocks between the first and
/// the last ones, which are sensitive. Embedding, norms, attention and output matrix never do.
struct Fp8Blocks {
  std::int64_t begin = 0;  ///< blocks [begin, end) of the model
  std::int64_t end = 0;
  bool on = false;
  WeightGradientType weight_gradients = WeightGradientType::fp8;
  /// Counts up whenever weights may have changed: casts of an earlier count are stale.
  std::uint64_t weights_epoch = 0;

  [[nodiscard]] bool covers(std::int64_t block) const { return begin <= block && block < end; }
};

/// A weight in fp8, and of which epoch it is.
struct Fp8Weight {
  fp8::Cast cast;
  std::uint64_t epoch = 0;
};

/// As `linear`, with all three products of training in fp8 (or all but the weights' gradients): input and weight in
/// e4m3, the gradient of the output in e5m2. Each matrix has the factor of its largest element at hand; ranks that
/// share a layer each have that of their part, so that nothing is exchanged. Weights are cast once an epoch.
[[nodiscard]] at::Tensor fp8_linear(const at::Tensor& input, const c10::intrusive_ptr<LinearWeight>& weight);

}  // namespace lowgear::trainer

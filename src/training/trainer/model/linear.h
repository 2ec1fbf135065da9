#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "training/trainer/fp8/matrix.h"
#include "training/trainer/model/parameter_store.h"

namespace lowgear::trainer {

struct LinearWeight;

/// How the gradients of weights are computed in layers whose other two products are in fp8.
enum class WeightGradientType : unsigned char {
  fp8,
  bf16  ///< slower, and without fp8's rounding in the sums of the optimizer
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

enum class LinearOutput : unsigned char {
  computed,
  left_out  ///< numbers of any value, where a layer is computed again for its gradients alone
};

/// As `linear`, with all three products of training in fp8 (or all but the weights' gradients): input and weight in
/// e4m3, the gradient of the output in e5m2. Each matrix has the factor of its largest element at hand; ranks that
/// share a layer each have that of their part, so that nothing is exchanged. Weights are cast once an epoch.
[[nodiscard]] at::Tensor fp8_linear(const at::Tensor& input, const c10::intrusive_ptr<LinearWeight>& weight,
                                    LinearOutput output = LinearOutput::computed);

/// Weight gradients that are put off: a backward pass in two parts (Qi et al. 2023, "Zero Bubble Pipeline Parallelism")
/// first computes the gradient that the previous stage waits for, and keeps the inputs of weight gradients for later.
class WeightGradientQueue {
 public:
  /// While deferring, linear layers pass on their weight gradients instead of computing them.
  [[nodiscard]] bool deferring() const { return target_ != nullptr; }
  void put_off(std::function<void()> compute) { target_->push_back(std::move(compute)); }
  using Deferred = std::vector<std::function<void()>>;
  /// Defers into `target` until the returned guard ends.
  class Guard {
   public:
    Guard(WeightGradientQueue& queue, Deferred* target) : queue_(&queue) { queue_->target_ = target; }
    ~Guard() { queue_->target_ = nullptr; }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    WeightGradientQueue* queue_;
  };

 private:
  Deferred* target_ = nullptr;
};

/// A matrix of the model, with the sum of its gradient. Autograd does not see it, so that its gradient can be computed
/// later than that of the layer's input, and be added to the sum over the microbatches at once.
struct LinearWeight final : torch::CustomClassHolder {
  at::Tensor weight;           ///< [out, in]
  at::Tensor weight_gradient;  ///< the same shape, fp32; undefined: the weight is frozen
  at::Tensor bias;             ///< [out], or undefined
  at::Tensor bias_gradient;
  WeightGradientQueue* queue = nullptr;
  const ParameterStore* store = nullptr;  ///< whose the gradients are
  const Parameter* parameter = nullptr;   ///< or the first of those that it consists of
  const Fp8Blocks* fp8_blocks = nullptr;  ///< that it belongs to; null: it never computes in fp8
  std::optional<Fp8Weight> fp8;           ///< made when it is first used

  /// Neither frozen nor left out by this step.
  [[nodiscard]] bool wants_gradient() const {
    return weight_gradient.defined() && (parameter == nullptr || !parameter->dropped);
  }
};

/// Adds the gradients of the weight and the bias in the type of the activations: now, or later if they are put off.
/// `input` is [..., in], `output_gradient` [..., out]. A weight that is not trained gets none.
void add_gradients(const c10::intrusive_ptr<LinearWeight>& weight, const at::Tensor& input,
                   const at::Tensor& output_gradient);

/// input · weightᵀ + bias, for an input [..., in], in fp8 where the weight says so. The gradient of the weight does not
/// depend on how the backward pass is split: it is one product per microbatch, added to the sum.
[[nodiscard]] at::Tensor linear(const at::Tensor& input, const c10::intrusive_ptr<LinearWeight>& weight,
                                LinearOutput output = LinearOutput::computed);

}  // namespace lowgear::trainer

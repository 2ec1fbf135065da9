#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "training/trainer/model/transformer.h"

namespace lowgear::trainer {

/// Which part of the model a stage is.
struct StageRange {
  model::LayerRange layers;
  bool first = true;  ///< has the embedding
  bool last = true;   ///< has the last norm, the output layer and the loss
};

struct StageOptions {
  /// Keep only what enters each layer, and compute the layer again in the backward pass.
  bool recompute = false;
  /// The model's output layer shares the embedding's weights, and another stage has the embedding.
  bool embedding_elsewhere = false;
};

enum class WeightGradients : unsigned char {
  now,   ///< computed with the input's
  later  ///< kept for `weight_gradients`
};

/// A run of layers of the model on one rank: forward and backward passes of many microbatches in any order that a
/// schedule may have. Ids and targets are [batch, time] int64, activations [batch, time, hidden].
class Stage {
 public:
  /// Declares the parameters in the context's store.
  Stage(const BlockContext& context, const StageRange& range, StageOptions options);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() = default;

  /// To be called once the store is allocated and before anything else.
  void bind();
  [[nodiscard]] const StageRange& range() const { return range_; }

  /// Input: ids on the first stage, else activations. Returns activations or, on the last stage, the mean loss.
  [[nodiscard]] at::Tensor forward(int microbatch, const at::Tensor& input, const at::Tensor& targets);
  /// Gradient of the microbatch's output to that of its input (undefined on the first stage). On the last stage the
  /// output is the loss, and its gradient a number.
  [[nodiscard]] at::Tensor backward(int microbatch, const at::Tensor& output_gradient, WeightGradients when);
  /// What a stage that has the whole model makes of ids: [batch, time, part of the vocabulary]. Keeps nothing for a
  /// backward pass.
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids);
  /// The weight gradients that `backward` has left for later.
  void weight_gradients(int microbatch);
  /// Forgets every microbatch: after a failure.
  void clear();

 private:
  /// What a forward pass leaves for the backward pass.
  struct Pass {
    at::Tensor input;
    at::Tensor targets;
    at::Tensor output;
    std::vector<at::Tensor> layer_inputs;  ///< when layers are computed again
  };

  [[nodiscard]] at::Tensor enter(const at::Tensor& input);
  [[nodiscard]] at::Tensor logits_of(const at::Tensor& activations);
  [[nodiscard]] at::Tensor leave(const at::Tensor& activations, const at::Tensor& targets);
  [[nodiscard]] at::Tensor forward_keeping_inputs(Pass& pass);
  [[nodiscard]] at::Tensor backward_recomputing(Pass& pass, at::Tensor gradient);
  void collect_gradients();

  BlockContext context_;
  StageRange range_;
  StageOptions options_;
  WeightGradientQueue queue_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;  ///< GPT-2's
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::optional<Norm> norm_;
  Parameter* output_weight_ = nullptr;
  c10::intrusive_ptr<LinearWeight> output_ = c10::make_intrusive<LinearWeight>();
  std::vector<Parameter*> leaves_;  ///< of this stage, whose gradients autograd computes
  at::Tensor anchor_;
  std::map<int, Pass> passes_;
  std::map<int, WeightGradientQueue::Deferred> deferred_;
  std::size_t first_parameter_;
  std::size_t end_parameter_ = 0;
};

}  // namespace lowgear::trainer

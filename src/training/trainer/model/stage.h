#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "training/trainer/model/stage_layers.h"

namespace lowgear::trainer {

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

  /// To be called once the store is allocated and before anything else; anew whenever the store freezes others, when
  /// no microbatch is under way.
  void bind();
  [[nodiscard]] const StageRange& range() const { return range_; }

  /// Input: ids on the first stage, else activations. Returns activations or, on the last stage, the mean loss.
  [[nodiscard]] at::Tensor forward(int microbatch, const at::Tensor& input, const at::Tensor& targets);
  /// The same for a microbatch without a backward: keeps nothing. Also where parts are not frozen, to evaluate.
  [[nodiscard]] at::Tensor evaluate(const at::Tensor& input, const at::Tensor& targets);
  /// Gradient of the microbatch's output to that of its input (undefined where nothing before the stage is trained). On
  /// the last stage the output is the loss, and its gradient a number.
  [[nodiscard]] at::Tensor backward(int microbatch, const at::Tensor& output_gradient, WeightGradients when);
  /// Bytes of the activations that entered the stage, where it keeps them for the microbatch's backward; ids are none.
  [[nodiscard]] std::int64_t kept_input_bytes(int microbatch) const;
  /// Blocks of the stage that are trained; the others, frozen, come first. Only they have a backward.
  [[nodiscard]] std::int64_t trained_blocks() const { return range_.layers.size() - frozen_; }

  /// What a stage that has the whole model makes of ids: [batch, time, part of the vocabulary]. Keeps nothing for a
  /// backward pass.
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids);
  /// The weight gradients that `backward` has left for later.
  void weight_gradients(int microbatch);
  /// Forgets every microbatch and what was made of the weights: between iterations, and after a failure.
  void clear();

 private:
  /// What a forward pass leaves for the backward pass.
  struct Pass {
    at::Tensor input;
    at::Tensor targets;
    at::Tensor output;
    std::vector<at::Tensor> layer_inputs;  ///< when layers are computed again
  };

  [[nodiscard]] BlockContext with_queue(BlockContext context);
  [[nodiscard]] std::size_t first_trained() const { return static_cast<std::size_t>(frozen_); }
  [[nodiscard]] at::Tensor enter(const at::Tensor& input) const;
  [[nodiscard]] at::Tensor forward_keeping_inputs(Pass& pass);
  [[nodiscard]] at::Tensor backward_recomputing(Pass& pass, at::Tensor gradient);
  void collect_gradients();

  BlockContext context_;
  StageRange range_;
  StageOptions options_;
  WeightGradientQueue queue_;
  std::size_t first_parameter_;
  StageLayers layers_;
  std::size_t end_parameter_;
  std::int64_t frozen_ = 0;         ///< blocks at the stage's beginning
  bool trains_before_ = true;       ///< what enters the first trained block comes from what is trained, too
  std::vector<Parameter*> leaves_;  ///< of this stage, whose gradients autograd computes
  std::map<int, Pass> passes_;
  std::map<int, WeightGradientQueue::Deferred> deferred_;
};

}  // namespace lowgear::trainer

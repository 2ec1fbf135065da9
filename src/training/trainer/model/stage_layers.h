#pragma once

#include <cstdint>
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

/// The layers of a stage as functions of tensors, to which autograd differentiates them. Ids and targets are [batch,
/// time] int64, activations [batch, time, hidden].
class StageLayers {
 public:
  /// Declares the parameters in the context's store.
  StageLayers(const BlockContext& context, const StageRange& range);

  /// To be called once the store is allocated and before anything else; anew whenever the store freezes others.
  void bind();

  /// From the stage's input to what enters its first block: embeds ids on the first stage.
  [[nodiscard]] at::Tensor enter(const at::Tensor& input) const;
  [[nodiscard]] const std::vector<std::unique_ptr<TransformerBlock>>& blocks() const { return blocks_; }
  /// The stage's blocks `begin` to `end`, counted from 0, after each other.
  [[nodiscard]] at::Tensor through_blocks(at::Tensor activations, std::size_t begin, std::size_t end) const;
  /// From the last block's output to the stage's: the mean loss on the last stage.
  [[nodiscard]] at::Tensor leave(const at::Tensor& activations, const at::Tensor& targets);
  /// On the last stage: [batch, time, part of the vocabulary].
  [[nodiscard]] at::Tensor logits_of(const at::Tensor& activations);

 private:
  BlockContext context_;
  StageRange range_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;  ///< GPT-2's
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::optional<Norm> norm_;
  Parameter* output_weight_ = nullptr;
  c10::intrusive_ptr<LinearWeight> output_ = c10::make_intrusive<LinearWeight>();
  at::Tensor anchor_;
};

}  // namespace lowgear::trainer

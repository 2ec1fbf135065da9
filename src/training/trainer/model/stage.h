#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimating/model/model_config.h"
#include "estimating/model/partition.h"
#include "training/trainer/model/transformer.h"
#include "training/trainer/transport/transport.h"

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
  [[nodiscard]] Activations through_blocks(Activations activations, std::size_t begin, std::size_t end) const;
  /// From the last block's output to the stage's: the mean loss on the last stage.
  [[nodiscard]] at::Tensor leave(const Activations& activations, const at::Tensor& targets);
  /// On the last stage: [batch, time, part of the vocabulary].
  [[nodiscard]] at::Tensor logits_of(const Activations& activations);

 private:
  BlockContext context_;
  StageRange range_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;
  std::optional<LinearLayer> project_in_;
  std::optional<Norm> embedding_norm_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::optional<Norm> norm_;
  std::optional<LinearLayer> project_out_;
  Parameter* output_weight_ = nullptr;
  c10::intrusive_ptr<LinearWeight> output_ = c10::make_intrusive<LinearWeight>();
  at::Tensor anchor_;
};

/// What a pass knows of its microbatch besides the tokens.
struct PassSamples {
  SampleKeys keys = {};                      ///< of dropout; empty: nothing is dropped
  std::vector<std::int64_t> documents = {};  ///< lengths; not empty: the batch is one row that consists of them
};

struct StageOptions {
  /// Keep only what enters each layer, and compute the layer again in the backward pass.
  bool recompute = false;
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
  /// `samples` are those of the microbatch.
  [[nodiscard]] at::Tensor forward(int microbatch, const at::Tensor& input, const at::Tensor& targets,
                                   const PassSamples& samples = {});
  /// The same for a microbatch without a backward: keeps nothing. Also where parts are not frozen, to evaluate.
  [[nodiscard]] at::Tensor evaluate(const at::Tensor& input, const at::Tensor& targets,
                                    const PassSamples& samples = {});
  /// Gradient of the microbatch's output to that of its input (undefined where nothing before the stage is trained). On
  /// the last stage the output is the loss, and its gradient a number.
  [[nodiscard]] at::Tensor backward(int microbatch, const at::Tensor& output_gradient, WeightGradients when);
  /// Bytes of the activations that entered the stage, where it keeps them for the microbatch's backward; ids are none.
  [[nodiscard]] std::int64_t kept_input_bytes(int microbatch) const;
  /// Blocks of the stage that are trained; the others, frozen, come first. Only they have a backward.
  [[nodiscard]] std::int64_t trained_blocks() const { return range_.layers.size() - frozen_; }

  /// The output for ids of a stage that has the whole model: [batch, time, part of the vocabulary]. Keeps nothing for a
  /// backward pass.
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids);
  /// The weight gradients that `backward` has left for later.
  void weight_gradients(int microbatch);
  /// Forgets every microbatch and the values derived from the weights: between iterations, and after a failure.
  void clear();

 private:
  /// Has the layers know a pass' samples until it ends.
  class Scope;
  /// The tensors that a forward pass keeps for the backward pass.
  struct Pass {
    at::Tensor input;
    at::Tensor targets;
    at::Tensor output;
    PassSamples samples;
    std::vector<at::Tensor> layer_inputs;  ///< when layers are computed again
  };

  [[nodiscard]] BlockContext with_queue(BlockContext context);
  [[nodiscard]] std::size_t first_trained() const { return static_cast<std::size_t>(frozen_); }
  [[nodiscard]] Activations enter(const at::Tensor& input) const;
  [[nodiscard]] at::Tensor forward_keeping_inputs(Pass& pass);
  [[nodiscard]] at::Tensor backward_recomputing(Pass& pass, at::Tensor gradient);
  void collect_gradients();

  BlockContext context_;
  StageRange range_;
  StageOptions options_;
  WeightGradientQueue queue_;
  Dropout dropout_;
  Documents documents_;
  std::size_t first_parameter_;
  StageLayers layers_;
  std::size_t end_parameter_;
  std::int64_t frozen_ = 0;         ///< blocks at the stage's beginning
  bool trains_before_ = true;       ///< the input of the first trained block comes from trained layers, too
  std::vector<Parameter*> leaves_;  ///< of this stage, whose gradients autograd computes
  std::map<int, Pass> passes_;
  std::map<int, WeightGradientQueue::Deferred> deferred_;
};

struct ModelPartOptions {
  at::ScalarType type = at::kFloat;  ///< of values and activations; gradients are summed in fp32
  at::Device device = at::kCPU;
  bool recompute = false;
  std::int64_t buffer_multiple = 1;   ///< the flat buffers' lengths are multiples of it
  std::optional<Fp8Blocks> fp8 = {};  ///< empty: no layer can compute in fp8
  std::int64_t frozen_blocks = 0;     ///< of the model, from the first on, with the embedding; 0: nothing is frozen
};

/// What one rank holds of the model: its virtual stages and all their parameters.
class ModelPart {
 public:
  /// `partition` has the layers of every virtual stage, `here` the stages of this rank in rising order. Throws
  /// InputError when the tensor-parallel ranks do not divide a size that is to be split.
  ModelPart(const model::ModelConfig& config, std::span<const model::LayerRange> partition,
            const std::vector<int>& here, const ModelPartOptions& options, const Communicators& ranks);
  ModelPart(const ModelPart&) = delete;
  ModelPart& operator=(const ModelPart&) = delete;
  ~ModelPart() = default;

  [[nodiscard]] std::map<int, Stage*> stages();
  /// Null: another rank has it.
  [[nodiscard]] const Stage* find_stage(int index) const {
    const auto found = stages_.find(index);
    return found == stages_.end() ? nullptr : found->second.get();
  }
  [[nodiscard]] ParameterStore& store() { return store_; }
  /// Takes the store's tensors anew: to be called when it has frozen others.
  void bind();
  /// Has the blocks that can compute in fp8 do so or not: between iterations.
  void use_fp8(bool on);
  /// Gives up the stages and the gradients; the parameters with their values stay.
  void dismiss();
  /// Adds up the gradients of embeddings that two stages share, unless they are frozen. To be called on all ranks,
  /// after the last backward.
  void reduce_tied_gradients();

 private:
  [[nodiscard]] Parameter* find_tied(bool copy);

  model::ModelConfig config_;
  const Communicators* ranks_;
  ParameterStore store_;
  Fp8Blocks fp8_;
  std::map<int, std::unique_ptr<Stage>> stages_;
};

}  // namespace lowgear::trainer

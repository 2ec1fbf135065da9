#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "estimating/model/model_config.h"
#include "estimating/model/partition.h"
#include "training/trainer/model/attention_bias.h"
#include "training/trainer/model/transformer.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Which part of the model a stage is.
struct StageRange {
  model::LayerRange layers;
  bool first = true;  ///< has the embedding
  bool last = true;   ///< has the last norm, the output layer and the loss
};

/// One microbatch of token ids, and the target at each position, or kNoTarget, both [batch, time] int64.
struct Microbatch {
  at::Tensor ids;
  at::Tensor targets;
  SampleKeys samples = {};      ///< of dropout; empty: nothing is dropped
  double balance_share = 1;     ///< factor of the load-balancing loss of experts; 0: the loss of the targets alone
  at::Tensor encoder_ids = {};  ///< of a model with an encoder and a decoder, whose are the others: [batch, any time]
  /// Lengths of documents, in which alone attention sees; not empty: the batch is one row that consists of them.
  std::vector<std::int64_t> documents = {};
};

/// The layers of a stage as functions of tensors, to which autograd differentiates them.
class StageLayers {
 public:
  /// Declares the parameters in the context's store.
  StageLayers(const BlockContext& context, const StageRange& range);

  /// To be called once the store is allocated and before anything else; anew whenever the store freezes others.
  void bind();

  /// What enters the first block of the first stage.
  [[nodiscard]] Streams embedded(const Microbatch& microbatch) const;
  [[nodiscard]] const std::vector<std::unique_ptr<TransformerBlock>>& blocks() const { return blocks_; }
  /// The stage's blocks `begin` to `end`, counted from 0, after each other.
  [[nodiscard]] Streams through_blocks(Streams streams, std::size_t begin, std::size_t end) const;
  /// From the last block's output to the stage's: the mean loss on the last stage.
  [[nodiscard]] Tensors leave(const Streams& streams, const Microbatch& microbatch);
  /// On the last stage: [batch, time, part of the vocabulary].
  [[nodiscard]] at::Tensor logits_of(const Streams& streams);

 private:
  BlockContext context_;
  StageRange range_;
  Parameter* embedding_ = nullptr;
  Parameter* token_types_ = nullptr;
  Parameter* positions_ = nullptr;
  std::vector<Parameter*> relative_positions_;  ///< of encoder and decoder
  std::optional<LinearLayer> project_in_;
  std::optional<Norm> embedding_norm_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::optional<LinearLayer> head_transform_;
  std::optional<Norm> norm_;
  std::optional<LinearLayer> project_out_;
  Parameter* output_weight_ = nullptr;
  Parameter* output_bias_ = nullptr;
  c10::intrusive_ptr<LinearWeight> output_ = c10::make_intrusive<LinearWeight>();
  at::Tensor anchor_;
};

enum class WeightGradients : unsigned char {
  now,   ///< computed with the input's
  later  ///< kept for `weight_gradients`
};

/// A run of layers of the model on one rank: forward and backward passes of many microbatches in any order that a
/// schedule may have.
class Stage {
 public:
  /// Declares the parameters in the context's store.
  Stage(const BlockContext& context, const StageRange& range);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() = default;

  /// To be called once the store is allocated and before anything else; anew whenever the store freezes others, when
  /// no microbatch is under way.
  void bind();
  [[nodiscard]] const StageRange& range() const { return range_; }

  /// The microbatch of number `index`. `input` is the output of the stage before, which the first one does not have.
  /// Returns the tensors of streams or, on the last stage, the mean loss.
  [[nodiscard]] Tensors forward(int index, const Microbatch& microbatch, const Tensors& input = {});
  /// The same for a microbatch without a backward: keeps nothing. Also where parts are not frozen, to evaluate.
  [[nodiscard]] Tensors evaluate(const Microbatch& microbatch, const Tensors& input = {});
  /// Gradients of the microbatch's output to those of its input (none where nothing before the stage is trained). On
  /// the last stage the output is the loss, and its gradient a number.
  [[nodiscard]] Tensors backward(int index, const Tensors& output_gradients, WeightGradients when);
  /// Bytes of the activations that entered the stage, where it keeps them for the microbatch's backward; ids are none.
  [[nodiscard]] std::int64_t kept_input_bytes(int index) const;
  /// Blocks of the stage that are trained; the others, frozen, come first. Only they have a backward.
  [[nodiscard]] std::int64_t trained_blocks() const { return range_.layers.size() - frozen_; }

  /// The output of a stage that has the whole model: [batch, time, part of the vocabulary]. Keeps nothing for a
  /// backward pass; needs no targets.
  [[nodiscard]] at::Tensor logits(const Microbatch& microbatch);
  /// The weight gradients that `backward` has left for later.
  void weight_gradients(int index);
  /// Forgets every microbatch and the values derived from the weights: between iterations, and after a failure.
  void clear();

 private:
  /// Has the layers know a pass' microbatch until it ends.
  class Scope;
  /// The tensors that a forward pass keeps for the backward pass.
  struct Pass {
    Microbatch microbatch;
    Tensors input;
    Tensors output;
    std::vector<Tensors> layer_inputs;  ///< when layers are computed again
  };

  [[nodiscard]] BlockContext with_queue(BlockContext context);
  [[nodiscard]] bool recomputes_layers() const { return context_.recompute == launcher::Recompute::full; }
  [[nodiscard]] std::size_t first_trained() const { return static_cast<std::size_t>(frozen_); }
  [[nodiscard]] Streams received(const Microbatch& microbatch, const Tensors& input) const;
  [[nodiscard]] Streams enter(const Pass& pass) const;
  [[nodiscard]] Tensors forward_keeping_inputs(Pass& pass);
  [[nodiscard]] Tensors backward_recomputing(Pass& pass, Tensors gradients);
  void collect_gradients();

  BlockContext context_;
  StageRange range_;
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
  launcher::Recompute recompute = launcher::Recompute::none;
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
  /// Of the stages' forwards.
  [[nodiscard]] ExpertLoads& expert_loads() { return expert_loads_; }
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
  AttentionBiases attention_biases_;
  ExpertLoads expert_loads_;
  std::map<int, std::unique_ptr<Stage>> stages_;
};

}  // namespace lowgear::trainer

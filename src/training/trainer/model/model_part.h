#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimating/model/model_config.h"
#include "estimating/model/partition.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

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
  /// InputError when the tensor-parallel ranks do not divide what is to be split.
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
  /// Gives up the stages and the gradients: what is left are the parameters with their values.
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

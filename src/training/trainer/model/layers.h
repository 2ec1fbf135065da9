#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimating/model/family.h"
#include "estimating/model/model_config.h"
#include "training/launcher/config/recompute.h"
#include "training/trainer/model/dropout.h"
#include "training/trainer/model/expert_loads.h"
#include "training/trainer/model/linear.h"
#include "training/trainer/model/norm_and_loss.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/compat.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

class AttentionBiases;

/// The documents whose tokens a pass has, one after the other. None: every row of the batch is one.
struct Documents {
  std::vector<std::int64_t> lengths;
  at::Tensor positions = {};  ///< of each token in its document, int64; undefined without documents
};

/// What every block of a stage uses.
struct BlockContext {
  const model::ModelConfig* config = nullptr;
  const model::TensorNames* names = nullptr;
  ParameterStore* store = nullptr;
  WeightGradientQueue* queue = nullptr;
  Collective* tensor_group = nullptr;
  const Dropout* dropout = nullptr;
  AttentionBiases* attention_biases = nullptr;
  const Documents* documents = nullptr;  ///< of the pass at hand
  ExpertLoads* expert_loads = nullptr;   ///< null: not asked for
  Fp8Blocks* fp8_blocks = nullptr;       ///< null: none, also for layers that are not of them
  launcher::Recompute recompute = launcher::Recompute::none;
  std::int64_t block = kEmbeddingBlock;  ///< of the model, to which parameters are declared
};

/// Declares a parameter of the context's block, which every rank holds whole unless it says otherwise.
Parameter& declare(const BlockContext& context, Parameter parameter);

/// A matrix, and its bias if it has one, that is used as one but stands in the files as several (q, k, v).
class LinearLayer {
 public:
  struct Piece {
    std::string name;       ///< without `.weight` or `.bias`
    std::int64_t rows = 0;  ///< of the whole model
    int groups = 1;         ///< equal groups of rows, each split among the ranks
  };
  enum class Split : unsigned char { none, columns, rows };  ///< columns: outputs; rows: inputs (Megatron's words)
  struct Shape {
    std::vector<Piece> pieces;
    std::int64_t inputs = 0;  ///< of the whole model
    Split split = Split::none;
    bool bias = false;
    bool transposed_in_files = false;
    BlockLinear linear = BlockLinear::none;  ///< of the block
  };

  LinearLayer(const BlockContext& context, const Shape& shape);
  void bind();
  [[nodiscard]] at::Tensor operator()(const at::Tensor& input, LinearOutput output = LinearOutput::computed) const {
    return linear(input, weight_, output);
  }
  /// The bias of a layer whose rows several ranks have, which is added once, after their sum; null: none is left to
  /// add.
  [[nodiscard]] Parameter* late_bias() const { return late_bias_; }

 private:
  BlockContext context_;
  std::vector<Parameter*> weights_;
  std::vector<Parameter*> biases_;
  Parameter* late_bias_ = nullptr;
  c10::intrusive_ptr<LinearWeight> weight_ = c10::make_intrusive<LinearWeight>();
};

/// The shape of one matrix that is split by rows: the second one of attention or of an MLP.
[[nodiscard]] LinearLayer::Shape by_rows(const model::ModelConfig& config, std::string name, std::int64_t inputs,
                                         bool bias, BlockLinear linear);

/// The input of products that are trained: they take their gradients with that of their input, for which nothing before
/// has asked where that is frozen.
[[nodiscard]] at::Tensor asking_for_gradients(const at::Tensor& input);

/// The sum over the ranks with the bias of the layer that is split by rows.
[[nodiscard]] at::Tensor with_late_bias(const at::Tensor& sum, const LinearLayer& layer);

/// RMSNorm or LayerNorm, as the model has it, of the sum of activations.
class Norm {
 public:
  Norm(const BlockContext& context, const std::string& name);
  void bind();
  [[nodiscard]] NormalisedSum operator()(const Activations& input) const {
    return add_and_normalise(input, parameters_);
  }

 private:
  NormParameters parameters_;
};

}  // namespace lowgear::trainer

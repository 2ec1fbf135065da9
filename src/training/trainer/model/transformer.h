#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "estimating/model/model_config.h"
#include "estimating/model/partition.h"
#include "training/trainer/model/linear.h"
#include "training/trainer/model/norm_and_loss.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/compat.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// What every block of a stage uses.
struct BlockContext {
  const model::ModelConfig* config = nullptr;
  ParameterStore* store = nullptr;
  WeightGradientQueue* queue = nullptr;
  Collective* tensor_group = nullptr;
  Fp8Blocks* fp8_blocks = nullptr;       ///< null: none, also for layers that are not of them
  std::int64_t block = kEmbeddingBlock;  ///< of the model, to which parameters are declared
};

/// One layer of a transformer: activations [batch, time, hidden] to the same shape. Parameters are declared when it is
/// made and usable once the store is allocated and `bind` was called, anew whenever the store freezes others.
class TransformerBlock {
 public:
  virtual ~TransformerBlock() = default;
  virtual void bind() = 0;
  [[nodiscard]] virtual Activations forward(const Activations& input) = 0;
};

[[nodiscard]] std::unique_ptr<TransformerBlock> make_block(BlockContext context, std::int64_t layer);

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
  [[nodiscard]] at::Tensor operator()(const at::Tensor& input) const { return linear(input, weight_); }
  /// The bias of a layer split by rows, which is added once, after the sum; undefined when there is none.
  [[nodiscard]] Parameter* late_bias() const { return late_bias_; }

 private:
  BlockContext context_;
  std::vector<Parameter*> weights_;
  std::vector<Parameter*> biases_;
  Parameter* late_bias_ = nullptr;
  c10::intrusive_ptr<LinearWeight> weight_ = c10::make_intrusive<LinearWeight>();
};

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

/// Angles of the rotary position embedding (Su et al. 2021), as cosines and sines for the kernels. Scaling of the
/// frequencies as `config.rope_scaling` says (linear, or Llama 3.1's).
class RotaryAngles {
 public:
  explicit RotaryAngles(const model::ModelConfig& config) : config_(&config) {}

  /// For positions 0 to `time` - 1 on a device: fp32, [time, head_dim / 2].
  void prepare(std::int64_t time, at::Device device);
  [[nodiscard]] const at::Tensor& cosine() const { return cosine_; }
  [[nodiscard]] const at::Tensor& sine() const { return sine_; }

 private:
  const model::ModelConfig* config_;
  at::Tensor cosine_;
  at::Tensor sine_;
};

/// Angle per position of every pair of dimensions, [head_dim / 2], fp32.
[[nodiscard]] at::Tensor rotary_frequencies(const model::ModelConfig& config);

}  // namespace lowgear::trainer

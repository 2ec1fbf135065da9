#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "training/trainer/model/layers.h"

namespace lowgear::trainer {

using Tensors = std::vector<at::Tensor>;

/// What passes from layer to layer. Members that the model does not have are undefined.
struct Streams {
  Activations activations;  ///< [batch, time, hidden]
  /// Of the routers so far, fp32 [2, experts]: tokens for which they chose each expert, and sums of its probabilities.
  at::Tensor routing = {};
  /// With an encoder and a decoder, what the layer at hand does not work on: in the encoder what enters the decoder, in
  /// the decoder what the encoder put out.
  at::Tensor other = {};
  at::Tensor relative_positions = {};  ///< [encoder and decoder, buckets, heads of this rank]

  /// What another stage receives, and the streams that it makes of it.
  [[nodiscard]] Tensors tensors() const;
  [[nodiscard]] static Streams of(const model::ModelConfig& config, const Tensors& tensors);
};

/// One of the tensors of streams.
struct StreamShape {
  std::vector<std::int64_t> shape;
  bool in_fp32 = false;  ///< else in the type of the activations
};
/// Those of a microbatch of `batch` sequences of `time` tokens, on each of `tensor_ranks` ranks that share layers.
[[nodiscard]] std::vector<StreamShape> stream_shapes(const model::ModelConfig& config, std::int64_t batch,
                                                     std::int64_t time, int tensor_ranks);

/// The load-balancing loss of experts (Fedus et al. 2022, "Switch Transformers", eq. 4), of all layers as one: their
/// number times the sum, over the experts, of the share of tokens that chose it times its mean probability.
[[nodiscard]] at::Tensor balance_loss(const model::ModelConfig& config, const at::Tensor& routing, std::int64_t tokens);

/// One layer of a transformer. Parameters are declared when it is made and usable once the store is allocated and
/// `bind` was called, anew whenever the store freezes others.
class TransformerBlock {
 public:
  virtual ~TransformerBlock() = default;
  virtual void bind() = 0;
  [[nodiscard]] virtual Streams forward(const Streams& input) = 0;
};

/// The layer that the model's description says.
[[nodiscard]] std::unique_ptr<TransformerBlock> make_block(BlockContext context, std::int64_t layer);

}  // namespace lowgear::trainer

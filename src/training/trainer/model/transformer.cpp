#include "training/trainer/model/transformer.h"

#include <string>

#include "estimating/model/parameters.h"
#include "training/trainer/model/attention.h"
#include "training/trainer/model/mlp.h"

namespace lowgear::trainer {
namespace {

class DecoderBlock final : public TransformerBlock {
 public:
  DecoderBlock(const BlockContext& context, const model::TensorNames& names, std::int64_t layer)
      : DecoderBlock(context, names, model::layer_prefix(names, layer), layer) {}

  void bind() override {
    attention_norm_.bind();
    attention_.bind();
    mlp_norm_.bind();
    mlp_->bind();
  }

  Activations forward(const Activations& input) override {
    if (config_->norm_place == model::NormPlace::after) return forward_normalising_sums(input.sum());
    const NormalisedSum entered = attention_norm_(input);
    if (config_->parallel_residual) {
      const at::Tensor attended = attention_(entered.normalised);
      return {entered.sum, attended + (*mlp_)(mlp_norm_({entered.sum}).normalised)};
    }
    const NormalisedSum attended = mlp_norm_({entered.sum, attention_(entered.normalised)});
    return {attended.sum, (*mlp_)(attended.normalised)};
  }

 private:
  DecoderBlock(const BlockContext& context, const model::TensorNames& names, const std::string& prefix,
               std::int64_t layer)
      : config_(context.config),
        attention_norm_(context, prefix + names.attention_norm),
        attention_(context, prefix, layer),
        mlp_norm_(context, prefix + names.mlp_norm),
        mlp_(make_mlp(context, prefix, layer)) {}

  /// Products take their gradients with that of their input, which nothing before has asked for where it is frozen.
  Activations forward_normalising_sums(at::Tensor input) {
    if (torch::autograd::GradMode::is_enabled() && !input.requires_grad()) {
      input = input.detach().requires_grad_(true);
    }
    const at::Tensor attended = attention_norm_({input, attention_(input)}).normalised;
    return {mlp_norm_({attended, (*mlp_)(attended)}).normalised};
  }

  const model::ModelConfig* config_;
  Norm attention_norm_;
  Attention attention_;
  Norm mlp_norm_;
  std::unique_ptr<Mlp> mlp_;
};

}  // namespace

std::unique_ptr<TransformerBlock> make_block(BlockContext context, std::int64_t layer) {
  context.block = layer;
  if (context.fp8_blocks != nullptr && !context.fp8_blocks->covers(layer)) context.fp8_blocks = nullptr;
  return std::make_unique<DecoderBlock>(context, family_of(*context.config).tensors, layer);
}

}  // namespace lowgear::trainer

#include "training/trainer/model/mlp.h"

#include <deque>
#include <optional>
#include <tuple>
#include <vector>

#include "estimating/model/parameters.h"
#include "training/trainer/model/operations.h"

namespace lowgear::trainer {

at::Tensor activated(const at::Tensor& input, model::Activation activation) {
  switch (activation) {
    case model::Activation::silu:
      return at::silu(input);
    case model::Activation::gelu:
      return at::gelu(input);
    case model::Activation::gelu_tanh:
      return at::gelu(input, "tanh");
    case model::Activation::quick_gelu:
      return input * at::sigmoid(1.702 * input);
    case model::Activation::relu:
      return at::relu(input);
  }
  return input;
}

namespace {

/// The products of an MLP: of the width that this rank has, what it adds to the sum over the ranks.
class MlpProducts {
 public:
  struct Names {
    std::vector<std::string> in;
    std::string out;
  };
  MlpProducts(const BlockContext& context, const Names& names, std::int64_t width)
      : config_(context.config),
        in_(context, in_shape(*context.config, names.in, width)),
        out_(context, by_rows(*context.config, names.out, width, context.config->mlp_biases, BlockLinear::mlp_out)) {}

  void bind() {
    in_.bind();
    out_.bind();
  }
  [[nodiscard]] at::Tensor operator()(const at::Tensor& input) const { return out_(inside(in_(input))); }
  /// With dropout of what is inside.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& input, const Dropout& dropout,
                                      const Dropout::Place& place) const {
    return out_(dropout(inside(in_(input)), config_->mlp_dropout, place));
  }
  [[nodiscard]] const LinearLayer& out() const { return out_; }

 private:
  static LinearLayer::Shape in_shape(const model::ModelConfig& config, const std::vector<std::string>& names,
                                     std::int64_t width) {
    LinearLayer::Shape shape{.pieces = {},
                             .inputs = config.hidden,
                             .split = LinearLayer::Split::columns,
                             .bias = config.mlp_biases,
                             .transposed_in_files = family_of(config).tensors.transposed,
                             .linear = BlockLinear::mlp_in};
    const int parts = config.mlp == model::MlpKind::gated ? 2 : 1;
    const bool joined = names.size() == 1;
    for (const std::string& name : names) {
      shape.pieces.push_back({.name = name, .rows = joined ? parts * width : width, .groups = joined ? parts : 1});
    }
    return shape;
  }

  [[nodiscard]] at::Tensor inside(const at::Tensor& wide) const {
    if (config_->mlp == model::MlpKind::plain) return activated(wide, config_->activation);
    if (config_->activation == model::Activation::silu) return swiglu(wide);
    const std::vector<at::Tensor> halves = wide.chunk(2, -1);
    return activated(halves[0], config_->activation) * halves[1];
  }

  const model::ModelConfig* config_;
  LinearLayer in_;
  LinearLayer out_;
};

class DenseMlp final : public Mlp {
 public:
  DenseMlp(const BlockContext& context, const MlpProducts::Names& names, std::int64_t layer)
      : context_(context), layer_(layer), products_(context, names, context.config->intermediate) {}

  void bind() override { products_.bind(); }
  at::Tensor operator()(const at::Tensor& input, at::Tensor& /*routing*/) override {
    Collective& group = *context_.tensor_group;
    const at::Tensor inside =
        products_(enter_parallel(input, group), *context_.dropout,
                  {.layer = layer_, .site = DropoutSite::mlp_inside, .parts = group.size(), .part = group.rank()});
    const at::Tensor sum = leave_parallel(inside, group);
    return (*context_.dropout)(with_late_bias(sum, products_.out()), context_.config->residual_dropout,
                               {.layer = layer_, .site = DropoutSite::mlp_output});
  }

 private:
  BlockContext context_;
  std::int64_t layer_;
  MlpProducts products_;
};

/// A matrix that every rank has whole, without a bias.
LinearLayer::Shape whole(const model::ModelConfig& config, const std::string& name, std::int64_t rows) {
  return {.pieces = {{name, rows}}, .inputs = config.hidden, .bias = false};
}

/// Experts of which a router chooses some for each token, and one for all tokens if the model has it. Every rank of the
/// tensor-parallel group has a part of each. All are computed in each pass, also those of no token: the gradients of
/// each get as many addends.
class ExpertMlp final : public Mlp {
 public:
  ExpertMlp(const BlockContext& context, const std::string& prefix, std::int64_t layer)
      : context_(without_fp8(context)),
        layer_(layer),
        router_(context_, whole(*context.config, prefix + names().router, shape().experts)) {
    for (std::int64_t expert = 0; expert < shape().experts; ++expert) {
      const std::string begin = prefix + model::expert_prefix(names(), expert);
      experts_.emplace_back(context_,
                            MlpProducts::Names{prefixed(begin, names().expert_in), begin + names().expert_out},
                            shape().intermediate);
    }
    if (shape().shared_intermediate == 0) return;
    shared_.emplace(context_, MlpProducts::Names{prefixed(prefix, names().shared_in), prefix + names().shared_out},
                    shape().shared_intermediate);
    shared_router_.emplace(context_, whole(*context.config, prefix + names().shared_router, 1));
  }

  static std::vector<std::string> prefixed(const std::string& prefix, std::vector<std::string> names) {
    for (std::string& name : names) name.insert(0, prefix);
    return names;
  }

  void bind() override {
    router_.bind();
    for (MlpProducts& expert : experts_) expert.bind();
    if (!shared_) return;
    shared_->bind();
    shared_router_->bind();
  }

  at::Tensor operator()(const at::Tensor& input, at::Tensor& routing) override {
    Collective& group = *context_.tensor_group;
    const at::Tensor tokens = input.reshape({-1, input.size(-1)});
    const at::Tensor entered = enter_parallel(tokens, group);
    at::Tensor sum = routed(tokens, entered, routing);
    if (shared_) {
      const at::Tensor gate = enter_parallel(at::sigmoid((*shared_router_)(tokens)), group);
      sum = sum + gate * (*shared_)(entered);
    }
    const at::Tensor output = leave_parallel(sum, group).view(input.sizes());
    return (*context_.dropout)(output, context_.config->residual_dropout,
                               {.layer = layer_, .site = DropoutSite::mlp_output});
  }

 private:
  static BlockContext without_fp8(BlockContext context) {
    context.fp8_blocks = nullptr;  // an expert's tokens are no multiple of what its products require
    return context;
  }
  [[nodiscard]] const model::ExpertShape& shape() const { return *context_.config->experts; }
  [[nodiscard]] const model::TensorNames& names() const { return *context_.names; }

  /// The outputs of the experts, by their shares of each token: the softmax over all of them in fp32.
  at::Tensor routed(const at::Tensor& tokens, const at::Tensor& entered, at::Tensor& routing) {
    const at::Tensor probabilities = router_(tokens).softmax(-1, at::kFloat);
    auto [shares, chosen] = probabilities.topk(shape().experts_per_token, -1);
    if (routing.defined()) {
      const at::Tensor counts = chosen.reshape({-1}).bincount({}, shape().experts).to(at::kFloat);
      routing = routing + at::stack({counts, probabilities.sum(0)});
    }
    if (context_.config->normalised_experts) shares = shares / shares.sum(-1, true);
    const at::Tensor weights = enter_parallel(shares.to(tokens.scalar_type()), *context_.tensor_group);
    at::Tensor sum = at::zeros_like(tokens);
    for (std::size_t expert = 0; expert < experts_.size(); ++expert) {
      const at::Tensor places = chosen.eq(static_cast<std::int64_t>(expert)).nonzero();
      const at::Tensor rows = places.select(1, 0);
      const at::Tensor share = weights.index({rows, places.select(1, 1)}).unsqueeze(-1);
      sum = sum.index_add(0, rows, experts_[expert](entered.index_select(0, rows)) * share);
    }
    return sum;
  }

  BlockContext context_;
  std::int64_t layer_;
  LinearLayer router_;
  std::deque<MlpProducts> experts_;
  std::optional<MlpProducts> shared_;
  std::optional<LinearLayer> shared_router_;
};

}  // namespace

std::unique_ptr<Mlp> make_mlp(const BlockContext& context, const std::string& prefix, std::int64_t layer) {
  if (has_experts(*context.config, layer)) return std::make_unique<ExpertMlp>(context, prefix, layer);
  const model::TensorNames& names = *context.names;
  const std::vector<std::string>& in = mlp_inputs(*context.config, names);
  return std::make_unique<DenseMlp>(context,
                                    MlpProducts::Names{ExpertMlp::prefixed(prefix, in), prefix + names.mlp_out}, layer);
}

}  // namespace lowgear::trainer

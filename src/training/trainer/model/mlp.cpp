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

/// Rows in another order: those of `order`, whose inverse is `back`. No row is twice among them, so that the gradient
/// is a permutation, too, in place of a sum whose order would not be the same each time.
struct Permute : torch::autograd::Function<Permute> {
  // NOLINTNEXTLINE(readability-identifier-naming): names that autograd asks for
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& rows, const at::Tensor& order,
                            const at::Tensor& back) {
    context->save_for_backward({back});
    return rows.index_select(0, order);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients.front().index_select(0, context->get_saved_variables().front()), {}, {}};
  }
};

at::Tensor permuted(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& back) {
  return Permute::apply(rows, order, back);
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
    const std::int64_t each = shape().experts_per_token;
    const SortedRows sorted = sorted_by(chosen.flatten());
    if (context_.expert_loads != nullptr) context_.expert_loads->add(layer_, sorted.counts);
    const at::Tensor rows = permuted(entered.unsqueeze(1).expand({-1, each, -1}).reshape({-1, tokens.size(-1)}),
                                     sorted.order, sorted.places);
    const std::vector<at::Tensor> inputs = rows.split_with_sizes(sorted.counts, 0);
    std::vector<at::Tensor> outputs;
    for (std::size_t expert = 0; expert < experts_.size(); ++expert) {
      outputs.push_back(experts_[expert](inputs[expert]));
    }
    const at::Tensor by_token =
        permuted(at::cat(outputs), sorted.places, sorted.order).view({-1, each, tokens.size(-1)});
    return (by_token * weights.unsqueeze(-1)).sum(1);
  }

  struct SortedRows {
    at::Tensor order;                  ///< entries by their expert
    at::Tensor places;                 ///< of each entry in that order
    std::vector<std::int64_t> counts;  ///< of each expert; the host waits for them
  };

  [[nodiscard]] SortedRows sorted_by(const at::Tensor& chosen) const {
    const at::Tensor order = at::argsort(chosen, /*stable=*/true, /*dim=*/0, /*descending=*/false);
    const at::Tensor places = at::empty_like(order).scatter_(0, order, at::arange(order.numel(), order.options()));
    const at::Tensor experts = at::arange(shape().experts, chosen.options()).unsqueeze(-1);
    const at::Tensor counts = chosen.eq(experts).sum(-1).to(at::kCPU);
    const auto* const first = counts.data_ptr<std::int64_t>();
    return {order, places, {first, first + counts.numel()}};
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

#include "training/trainer/sampler/operator_workload.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "training/trainer/model/operations.h"
#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

namespace {

using Tensors = std::vector<at::Tensor>;
using Work = std::function<void()>;

struct Passes {
  Work forward;
  Work backward;
};

/// Makes the tensors of one workload.
class TensorMaker {
 public:
  TensorMaker(sampling::SampleType type, at::Device device) : type_(type), device_(device) {}

  [[nodiscard]] at::TensorOptions options() const { return at::device(device_).dtype(scalar_type()); }
  [[nodiscard]] at::TensorOptions wide_options() const { return at::device(device_).dtype(at::kFloat); }
  [[nodiscard]] at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes, options()); }
  /// One that gradients are computed of.
  [[nodiscard]] at::Tensor variable(at::IntArrayRef sizes) const { return random(sizes).requires_grad_(); }
  [[nodiscard]] at::Tensor indices(std::int64_t count, std::int64_t below) const {
    return at::randint(below, {count}, at::device(device_).dtype(at::kLong));
  }

 private:
  [[nodiscard]] at::ScalarType scalar_type() const {
    if (type_ == sampling::SampleType::fp32) return at::kFloat;
    return type_ == sampling::SampleType::bf16 ? at::kBFloat16 : at::kHalf;
  }

  sampling::SampleType type_;
  at::Device device_;
};

/// The backward pass that autograd makes of the forward pass.
template <typename Forward>
Passes differentiated(const Tensors& variables, Forward forward) {
  const Tensors outputs = forward();
  Tensors gradients;
  for (const at::Tensor& output : outputs) gradients.push_back(at::randn_like(output.detach()));
  return {
      .forward = [forward] { (void)forward(); },
      .backward = [variables, outputs,
                   gradients] { (void)torch::autograd::grad(outputs, variables, gradients, /*retain_graph=*/true); }};
}

Passes embedding(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor table = make.variable({n[1], n[2]});
  const at::Tensor tokens = make.indices(n[0], n[1]);
  return differentiated({table}, [=] { return Tensors{at::embedding(table, tokens)}; });
}

Passes norm(const TensorMaker& make, const sampling::KernelSizes& n, bool centred) {
  const at::Tensor input = make.variable({n[0], n[1]});
  const at::Tensor weight = make.variable({n[1]});
  constexpr double kEpsilon = 1e-5;
  if (!centred) {
    return differentiated({input, weight}, [=] { return Tensors{compat::rms_norm(input, weight, kEpsilon)}; });
  }
  const at::Tensor bias = make.variable({n[1]});
  return differentiated({input, weight, bias},
                        [=] { return Tensors{at::layer_norm(input, {input.size(-1)}, weight, bias, kEpsilon)}; });
}

/// Backward, the gradients of both branches are added.
Passes residual_add(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor residual = make.random({n[0], n[1]});
  const at::Tensor branch = make.random({n[0], n[1]});
  const Work add = [=] { (void)at::add(residual, branch); };
  return {.forward = add, .backward = add};
}

/// Weights are [outputs, inputs].
Passes linear(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor input = make.random({n[0], n[1]});
  const at::Tensor weight = make.random({n[2], n[1]});
  const at::Tensor gradient = make.random({n[0], n[2]});
  return {.forward = [=] { (void)at::mm(input, weight.t()); },
          .backward =
              [=] {
                (void)at::mm(gradient, weight);
                (void)at::mm(gradient.t(), input);
              }};
}

/// Queries and keys side by side, out of place.
Passes rotary(const TensorMaker& make, const sampling::KernelSizes& n) {
  const kernels::AttentionHeads heads{.heads = 2 * n[2], .kv_heads = 0, .head_dim = n[3]};
  const at::Tensor input = make.random({n[0], n[1], heads.heads * heads.head_dim});
  const at::Tensor angles = at::rand({n[1], n[3] / 2}, make.wide_options());
  const at::Tensor gradient = make.random({n[0], n[1], heads.heads, heads.head_dim});
  const at::Tensor none = gradient.narrow(2, 0, 0);
  const at::Tensor cosine = angles.cos();
  const at::Tensor sine = angles.sin();
  return {.forward =
              [=] {
                at::Tensor query;
                at::Tensor key;
                at::Tensor value;
                kernels::split_and_rotate(input, cosine, sine, heads, query, key, value);
              },
          .backward = [=] { (void)kernels::split_and_rotate_backward(gradient, none, none, cosine, sine, heads); }};
}

/// a b^T, with the scale within the product.
Passes attention_scores(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor query = make.random({n[0], n[1], n[2]});
  const at::Tensor key = make.random({n[0], n[1], n[2]});
  const at::Tensor gradient = make.random({n[0], n[1], n[1]});
  const at::Tensor target = at::empty({n[0], n[1], n[1]}, make.options());
  const double scale = 1 / std::sqrt(static_cast<double>(n[2]));
  return {.forward = [=] { (void)at::baddbmm(target, query, key.transpose(1, 2), 0, scale); },
          .backward =
              [=] {
                (void)at::bmm(gradient, key);
                (void)at::bmm(gradient.transpose(1, 2), query);
              }};
}

Passes attention_values(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor weights = make.random({n[0], n[1], n[1]});
  const at::Tensor value = make.random({n[0], n[1], n[2]});
  const at::Tensor gradient = make.random({n[0], n[1], n[2]});
  return {.forward = [=] { (void)at::bmm(weights, value); },
          .backward =
              [=] {
                (void)at::bmm(gradient, value.transpose(1, 2));
                (void)at::bmm(weights.transpose(1, 2), gradient);
              }};
}

Passes fused_attention(const TensorMaker& make, const sampling::KernelSizes& n) {
  const auto heads = [&] { return make.random({n[0], n[1], n[2], n[3]}).transpose(1, 2).requires_grad_(); };
  const at::Tensor query = heads();
  const at::Tensor key = heads();
  const at::Tensor value = heads();
  const double scale = 1 / std::sqrt(static_cast<double>(n[3]));
  return differentiated({query, key, value},
                        [=] { return Tensors{compat::attention(query, key, value, scale, /*causal=*/true)}; });
}

Passes attention_mask(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor scores = make.random({n[0], n[1], n[1]});
  const at::Tensor later = at::ones({n[1], n[1]}, make.options().dtype(at::kBool)).triu(1);
  return {.forward = [=] { (void)scores.masked_fill(later, -10000.0); },
          .backward = [=] { (void)scores.masked_fill(later, 0.0); }};
}

Passes softmax(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor scores = make.variable({n[0], n[1], n[1]});
  return differentiated({scores}, [=] { return Tensors{at::softmax(scores, -1)}; });
}

/// The scale is that of heads of 128.
Passes masked_softmax(const TensorMaker& make, const sampling::KernelSizes& n) {
  constexpr double kScale = 0.08838834764831845;
  const at::Tensor scores = make.random({n[0], n[1], n[1]});
  const at::Tensor gradient = make.random({n[0], n[1], n[1]});
  const at::Tensor weights = kernels::masked_softmax(scores, kScale);
  return {.forward = [=] { (void)kernels::masked_softmax(scores, kScale); },
          .backward = [=] { (void)kernels::masked_softmax_backward(weights, gradient, kScale); }};
}

Passes gelu(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor input = make.variable({n[0], n[1]});
  return differentiated({input}, [=] { return Tensors{at::gelu(input, "tanh")}; });
}

Passes swiglu_of(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor gate_up = make.random({n[0], 2 * n[1]});
  const at::Tensor gradient = make.random({n[0], n[1]});
  return {.forward = [=] { (void)kernels::swiglu(gate_up); },
          .backward = [=] { (void)kernels::swiglu_backward(gate_up, gradient); }};
}

/// Of usual size, so that what follows from them is, too.
Passes experts_of(const TensorMaker& make, const sampling::KernelSizes& n, bool gated) {
  const auto matrix = [&make](std::int64_t outputs, std::int64_t inputs) {
    const double scale = 1 / std::sqrt(static_cast<double>(inputs));
    return make.random({outputs, inputs}).mul_(scale).requires_grad_();
  };
  const std::int64_t hidden = n[1];
  const std::int64_t width = n[2];
  const std::int64_t ranks = n[4];
  ExpertWeights weights{.router = matrix(n[3] * ranks, hidden), .first = {}, .second = {}, .gated = gated};
  for (std::int64_t expert = 0; expert < n[3]; ++expert) {
    weights.first.push_back(matrix(gated ? 2 * width : width, hidden));
    weights.second.push_back(matrix(hidden, width));
  }
  const ExpertLayer layer(std::move(weights), make.variable({n[0], hidden}), n[5]);
  return differentiated(layer.variables(), [layer] { return Tensors{layer.forward()}; });
}

/// In fp32, as PyTorch computes it.
Passes cross_entropy(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor logits = make.variable({n[0], n[1]});
  const at::Tensor targets = make.indices(n[0], n[1]);
  return differentiated({logits}, [=] { return Tensors{at::cross_entropy_loss(logits.to(at::kFloat), targets)}; });
}

Passes optimizer(const TensorMaker& make, const sampling::KernelSizes& n) {
  const at::Tensor master = at::randn({n[0]}, make.wide_options());
  const at::Tensor gradient = at::randn({n[0]}, make.wide_options());
  const at::Tensor mean = at::zeros({n[0]}, make.wide_options());
  const at::Tensor variance = at::zeros({n[0]}, make.wide_options());
  const at::Tensor weights = at::empty({n[0]}, make.options());
  const kernels::AdamWStep step = {
      .learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
  const auto update = [=, count = n[0]] {
    kernels::adamw(master, mean, variance, gradient, count, step);
    weights.copy_(master);
  };
  return {.forward = update, .backward = {}};
}

Passes passes_of(sampling::SampledOperator op, const TensorMaker& make, const sampling::KernelSizes& sizes) {
  switch (op) {
    case sampling::SampledOperator::embedding:
      return embedding(make, sizes);
    case sampling::SampledOperator::layer_norm:
      return norm(make, sizes, /*centred=*/true);
    case sampling::SampledOperator::rms_norm:
      return norm(make, sizes, /*centred=*/false);
    case sampling::SampledOperator::residual_add:
      return residual_add(make, sizes);
    case sampling::SampledOperator::linear_qkv:
    case sampling::SampledOperator::linear_out:
    case sampling::SampledOperator::linear_up:
    case sampling::SampledOperator::linear_down:
    case sampling::SampledOperator::linear_head:
      return linear(make, sizes);
    case sampling::SampledOperator::rotary:
      return rotary(make, sizes);
    case sampling::SampledOperator::attention_scores:
      return attention_scores(make, sizes);
    case sampling::SampledOperator::attention_values:
      return attention_values(make, sizes);
    case sampling::SampledOperator::fused_attention:
      return fused_attention(make, sizes);
    case sampling::SampledOperator::attention_mask:
      return attention_mask(make, sizes);
    case sampling::SampledOperator::softmax:
      return softmax(make, sizes);
    case sampling::SampledOperator::masked_softmax:
      return masked_softmax(make, sizes);
    case sampling::SampledOperator::gelu:
      return gelu(make, sizes);
    case sampling::SampledOperator::swiglu:
      return swiglu_of(make, sizes);
    case sampling::SampledOperator::experts:
      return experts_of(make, sizes, /*gated=*/false);
    case sampling::SampledOperator::gated_experts:
      return experts_of(make, sizes, /*gated=*/true);
    case sampling::SampledOperator::cross_entropy:
      return cross_entropy(make, sizes);
    case sampling::SampledOperator::optimizer:
    case sampling::SampledOperator::first_stage_optimizer:
    case sampling::SampledOperator::middle_stage_optimizer:
    case sampling::SampledOperator::last_stage_optimizer:
      return optimizer(make, sizes);
  }
  throw Error("no such operator");
}

/// libtorch's allocator of the CPU has no exception of its own for it.
bool is_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const std::string_view text = error.what_without_backtrace();
  return text.find("can't allocate memory") != std::string_view::npos ||
         text.find("not enough memory") != std::string_view::npos;
}

/// Calls; libtorch's errors become Lowgear's, of one line.
template <typename Call>
auto with_errors(Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    const std::string_view text = error.what_without_backtrace();
    const std::string line(text.substr(0, text.find('\n')));
    if (is_out_of_memory(error)) throw OutOfMemory(line);
    throw Error(line);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("the host's memory is exhausted");
  }
}

}  // namespace

OperatorWorkload::OperatorWorkload(sampling::SampledOperator op, const sampling::OperatorShape& shape,
                                   sampling::SampleType type, bool gpu, int local_rank) {
  const at::Device device = gpu ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(local_rank)) : at::kCPU;
  Passes passes = with_errors([&] { return passes_of(op, TensorMaker(type, device), kernel_sizes(op, shape)); });
  forward_ = std::move(passes.forward);
  backward_ = std::move(passes.backward);
}

void OperatorWorkload::run(int pass) const {
  with_errors([&] { (pass == 0 ? forward_ : backward_)(); });
}

ExpertLayer::ExpertLayer(ExpertWeights weights, at::Tensor input, std::int64_t experts_per_token)
    : weights_(std::move(weights)), input_(std::move(input)), experts_per_token_(experts_per_token) {
  const at::Tensor counts = at::bincount(route().experts.flatten(), {}, weights_.router.size(0)).to(at::kCPU);
  for (std::size_t expert = 0; expert < weights_.first.size(); ++expert) {
    rows_.push_back(counts[static_cast<std::int64_t>(expert)].item<std::int64_t>());
  }
}

/// In fp32 at least, as training has it.
ExpertLayer::Routing ExpertLayer::route() const {
  const at::Tensor products = at::mm(input_, weights_.router.t());
  const at::Tensor weights = at::softmax(products, -1, c10::promoteTypes(products.scalar_type(), at::kFloat));
  auto [largest, experts] = at::topk(weights, experts_per_token_, -1);
  return {std::move(largest), std::move(experts)};
}

at::Tensor ExpertLayer::activate(const at::Tensor& inner) const {
  if (!weights_.gated) return at::gelu(inner, "tanh");
  const bool is_idle = inner.size(0) == 0;  // kernels on CUDA cannot run on nothing
  return is_idle ? inner.narrow(1, 0, inner.size(1) / 2) : swiglu(inner);
}

at::Tensor ExpertLayer::forward() const {
  const Routing routing = route();
  const std::int64_t rows = std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0});
  const auto [sorted, order] = at::sort(routing.experts.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor places = order.narrow(0, 0, rows);
  const at::Tensor tokens = at::floor_divide(places, experts_per_token_);
  const std::vector<at::Tensor> inputs = at::split_with_sizes(input_.index_select(0, tokens), rows_);
  std::vector<at::Tensor> outputs;
  for (std::size_t expert = 0; expert < inputs.size(); ++expert) {
    const at::Tensor inner = activate(at::mm(inputs[expert], weights_.first[expert].t()));
    outputs.push_back(at::mm(inner, weights_.second[expert].t()));
  }
  const at::Tensor shares = routing.weights.flatten().index_select(0, places).to(input_.scalar_type());
  const at::Tensor weighted = at::cat(outputs) * shares.unsqueeze(1);
  return at::zeros(input_.sizes(), input_.options().requires_grad(false)).index_add(0, tokens, weighted);
}

std::vector<at::Tensor> ExpertLayer::variables() const {
  std::vector<at::Tensor> variables = {input_, weights_.router};
  variables.insert(variables.end(), weights_.first.begin(), weights_.first.end());
  variables.insert(variables.end(), weights_.second.begin(), weights_.second.end());
  return variables;
}

}  // namespace lowgear::trainer

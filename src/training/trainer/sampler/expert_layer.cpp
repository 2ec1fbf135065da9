#include "training/trainer/sampler/expert_layer.h"

#include <numeric>
#include <tuple>
#include <utility>

#include "training/trainer/model/fused_operations.h"

namespace lowgear::trainer {

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

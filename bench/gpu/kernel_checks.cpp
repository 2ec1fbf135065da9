// kernel_checks cpu|cuda: the masked softmax, and mixtures of experts as the sampler times them, forward and backward
// in fp32, bf16 and fp16, against the same computed in fp64 on the CPU from the same numbers: the softmax by its
// definition, the experts one token at a time. Prints the largest differences; fails if one is more than the rounding
// of its type explains.

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "training/trainer/model/kernels.h"
#include "training/trainer/sampler/expert_layer.h"
#include "training/trainer/transport/compat.h"

namespace {

using namespace lowgear;  // NOLINT(google-build-using-namespace)
using Tensors = std::vector<at::Tensor>;

/// What a result in `type` may differ from the exact one, relative to the largest of all: some eight roundings.
double tolerance(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return 0.03;
    case at::kHalf:
      return 0.004;
    default:
      return 1e-3;  // products of GPUs may be made in tf32
  }
}

/// In fp64 on the CPU, with no history.
at::Tensor exact(const at::Tensor& numbers) { return numbers.detach().to(at::kCPU, at::kDouble); }

class Comparison {
 public:
  Comparison(std::string name, at::ScalarType type) : name_(std::move(name)), tolerance_(tolerance(type)) {}

  void compare(std::string_view what, const at::Tensor& result, const at::Tensor& expected) const {
    const at::Tensor difference = (exact(result) - expected).abs().max() / expected.abs().max().clamp_min(1e-30);
    const auto largest = difference.item<double>();
    fmt::print("{:34} {:24} {:.2e} of {:.0e}\n", name_, what, largest, tolerance_);
    // Written so that NaN fails.
    if (!(largest <= tolerance_)) throw Error(fmt::format("{}: {} is wrong", name_, what));
  }

 private:
  std::string name_;
  double tolerance_;
};

void check_masked_softmax(std::int64_t length, at::TensorOptions options) {
  constexpr double kScale = 0.125;
  const at::Tensor scores = at::randn({6, length, length}, options).mul_(8);
  const at::Tensor gradient = at::randn({6, length, length}, options);
  const at::Tensor weights = trainer::kernels::masked_softmax(scores, kScale);
  const at::Tensor result = trainer::kernels::masked_softmax_backward(weights, gradient, kScale);

  at::Tensor expected_scores = exact(scores).requires_grad_();
  const at::Tensor later = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor expected =
      at::softmax((expected_scores * kScale).masked_fill(later, -std::numeric_limits<double>::infinity()), -1);
  const Tensors expected_gradient = torch::autograd::grad({expected}, {expected_scores}, {exact(gradient)});

  const at::ScalarType type = options.dtype().toScalarType();
  const Comparison comparison(fmt::format("masked softmax, {} keys, {}", length, c10::toString(type)), type);
  comparison.compare("weights", weights, expected.detach());
  comparison.compare("gradient of the scores", result, expected_gradient[0]);
  if (weights.masked_select(later.to(weights.device())).count_nonzero().item<std::int64_t>() != 0) {
    throw Error("a query has a weight for a later key");
  }
}

struct ExpertSizes {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t width = 0;
  std::int64_t experts = 0;
  std::int64_t here = 0;  ///< experts of the rank
  std::int64_t per_token = 0;
};

trainer::ExpertWeights random_weights(const ExpertSizes& sizes, bool gated, at::TensorOptions options) {
  const auto random = [&](std::int64_t rows, std::int64_t columns) {
    return at::randn({rows, columns}, options).mul_(0.1).requires_grad_();
  };
  trainer::ExpertWeights weights;
  weights.gated = gated;
  weights.router = random(sizes.experts, sizes.hidden);
  for (std::int64_t expert = 0; expert < sizes.here; ++expert) {
    weights.first.push_back(random(gated ? 2 * sizes.width : sizes.width, sizes.hidden));
    weights.second.push_back(random(sizes.hidden, sizes.width));
  }
  return weights;
}

/// The choice of experts is that of the type's own rounding: `chosen` [tokens, experts per token].
at::Tensor token_by_token(const Tensors& variables, const ExpertSizes& sizes, bool gated, const at::Tensor& chosen) {
  const at::Tensor& input = variables[0];
  const at::Tensor weights = at::softmax(at::mm(input, variables[1].t()), -1);
  const auto* experts = chosen.data_ptr<std::int64_t>();
  Tensors rows;
  for (std::int64_t token = 0; token < sizes.tokens; ++token) {
    at::Tensor row = at::zeros({sizes.hidden}, at::kDouble);
    for (std::int64_t place = 0; place < sizes.per_token; ++place) {
      const std::int64_t expert = experts[token * sizes.per_token + place];
      if (expert >= sizes.here) continue;
      const at::Tensor& first = variables[static_cast<std::size_t>(2 + expert)];
      const at::Tensor& second = variables[static_cast<std::size_t>(2 + sizes.here + expert)];
      at::Tensor inner = at::mv(first, input[token]);
      if (gated) {
        inner = at::silu(inner.narrow(0, 0, sizes.width)) * inner.narrow(0, sizes.width, sizes.width);
      } else {
        inner = at::gelu(inner, "tanh");
      }
      row = row + weights[token][expert] * at::mv(second, inner);
    }
    rows.push_back(row);
  }
  return at::stack(rows);
}

void check_experts(const ExpertSizes& sizes, bool gated, at::TensorOptions options) {
  const at::Tensor input = at::randn({sizes.tokens, sizes.hidden}, options).requires_grad_();
  const trainer::ExpertLayer layer(random_weights(sizes, gated, options), input, sizes.per_token);
  const at::Tensor output = layer.forward();
  const at::Tensor gradient = at::randn_like(output.detach());
  const Tensors gradients = torch::autograd::grad({output}, layer.variables(), {gradient});

  Tensors variables;
  for (const at::Tensor& each : layer.variables()) variables.push_back(exact(each).requires_grad_());
  // Of numbers that have just been rounded to the type, fp64 may choose others.
  const at::Tensor products = at::mm(input.detach(), layer.variables()[1].detach().t());
  const at::Tensor chosen =
      std::get<1>(at::topk(at::softmax(products, -1, at::kFloat), sizes.per_token, -1)).cpu().contiguous();
  const at::Tensor expected = token_by_token(variables, sizes, gated, chosen);
  Tensors expected_gradients = torch::autograd::grad({expected}, variables, {exact(gradient)}, {}, false, true);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!expected_gradients[i].defined()) expected_gradients[i] = at::zeros_like(variables[i]);  // an idle expert's
  }

  const at::ScalarType type = options.dtype().toScalarType();
  const Comparison comparison(
      fmt::format("{} experts, {} here, {}{}", sizes.experts, sizes.here, gated ? "gated, " : "", c10::toString(type)),
      type);
  comparison.compare("output", output, expected.detach());
  comparison.compare("gradient of the input", gradients[0], expected_gradients[0]);
  comparison.compare("gradient of the router", gradients[1], expected_gradients[1]);
  const auto here = static_cast<std::ptrdiff_t>(sizes.here);
  const auto joined = [&](const Tensors& of, std::ptrdiff_t from) {
    return at::stack(Tensors(of.begin() + from, of.begin() + from + here));
  };
  comparison.compare("gradient, first weights", joined(gradients, 2), joined(expected_gradients, 2));
  comparison.compare("gradient, second weights", joined(gradients, 2 + here), joined(expected_gradients, 2 + here));
}

}  // namespace

int main(int count, char** words) {
  if (count != 2 || (std::string_view(words[1]) != "cpu" && std::string_view(words[1]) != "cuda")) {
    fmt::print(stderr, "usage: kernel_checks cpu|cuda\n");
    return 2;
  }
  try {
    const at::Device device = std::string_view(words[1]) == "cuda" ? at::kCUDA : at::kCPU;
    at::manual_seed(7);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      if (type == at::kHalf && device.is_cpu()) continue;  // older versions of libtorch have no such products there
      const auto options = at::device(device).dtype(type);
      for (const std::int64_t length : {1, 37, 512, 4096}) {
        if (length > 512 && device.is_cpu()) continue;
        check_masked_softmax(length, options);
      }
      for (const bool gated : {false, true}) {
        check_experts({.tokens = 200, .hidden = 96, .width = 80, .experts = 8, .here = 8, .per_token = 2}, gated,
                      options);
        check_experts({.tokens = 64, .hidden = 64, .width = 48, .experts = 64, .here = 16, .per_token = 4}, gated,
                      options);
      }
    }
    fmt::print("all kernels compute what they should\n");
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}


#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "training/trainer/sampler/operator_workload.h"

namespace lowgear::trainer {
namespace {

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

struct Sizes {
  std::int64_t tokens = 7;
  std::int64_t hidden = 4;
  std::int64_t width = 3;
  std::int64_t experts = 5;
  std::int64_t here = 5;
  std::int64_t per_token = 2;
  bool gated = false;
};

/// The tensors of a layer: input and weights, in double.
struct ExpertTensors {
  explicit ExpertTensors(const Sizes& sizes) : gated(sizes.gated), per_token(sizes.per_token) {
    at::manual_seed(7);
    const auto random = [](std::int64_t rows, std::int64_t columns) {
      return at::randn({rows, columns}, at::kDouble).requires_grad_();
    };
    input = random(sizes.tokens, sizes.hidden);
    weights.router = random(sizes.experts, sizes.hidden);
    weights.gated = gated;
    for (std::int64_t expert = 0; expert < sizes.here; ++expert) {
      weights.first.push_back(random(gated ? 2 * sizes.width : sizes.width, sizes.hidden));
      weights.second.push_back(random(sizes.hidden, sizes.width));
    }
  }

  [[nodiscard]] ExpertLayer layer() const { return {weights, input, per_token}; }

  at::Tensor input;
  ExpertWeights weights;
  bool gated;
  std::int64_t per_token;
};

Matrix matrix_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.detach().contiguous();
  const auto* const elements = whole.data_ptr<double>();
  Matrix matrix;
  for (std::int64_t row = 0; row < whole.size(0); ++row) {
    const auto* const begin = elements + row * whole.size(1);
    matrix.emplace_back(begin, begin + whole.size(1));
  }
  return matrix;
}

Row product(const Matrix& matrix, const Row& vector) {
  Row result;
  for (const Row& row : matrix) result.push_back(std::inner_product(row.begin(), row.end(), vector.begin(), 0.0));
  return result;
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double silu(double x) { return x / (1 + std::exp(-x)); }

/// What one expert makes of one token.
Row pass_expert(const ExpertTensors& tensors, std::size_t expert, const Row& token) {
  Row inner = product(matrix_of(tensors.weights.first[expert]), token);
  if (tensors.gated) {
    const std::size_t width = inner.size() / 2;
    for (std::size_t i = 0; i < width; ++i) inner[i] = silu(inner[i]) * inner[width + i];
    inner.resize(width);
  } else {
    std::ranges::transform(inner, inner.begin(), gelu);
  }
  return product(matrix_of(tensors.weights.second[expert]), inner);
}

/// One token: the experts of largest weight, one by one; those that are not here add nothing.
Row pass_token(const ExpertTensors& tensors, const Row& token) {
  Row weights = product(matrix_of(tensors.weights.router), token);
  std::ranges::transform(weights, weights.begin(), [](double x) { return std::exp(x); });
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Row output(token.size());
  for (std::int64_t choice = 0; choice < tensors.per_token; ++choice) {
    const auto best = std::ranges::max_element(weights);
    const auto expert = static_cast<std::size_t>(best - weights.begin());
    if (expert < tensors.weights.first.size()) {
      const Row made = pass_expert(tensors, expert, token);
      for (std::size_t i = 0; i < output.size(); ++i) output[i] += *best / sum * made[i];
    }
    *best = -1;
  }
  return output;
}

Matrix pass_all(const ExpertTensors& tensors) {
  Matrix output;
  for (const Row& token : matrix_of(tensors.input)) output.push_back(pass_token(tensors, token));
  return output;
}

class ExpertLayers : public testing::TestWithParam<Sizes> {};

TEST_P(ExpertLayers, SendEachTokenThroughItsExperts) {
  const ExpertTensors tensors(GetParam());
  const Matrix made = matrix_of(tensors.layer().forward());
  const Matrix expected = pass_all(tensors);
  ASSERT_EQ(made.size(), expected.size());
  for (std::size_t token = 0; token < made.size(); ++token) {
    for (std::size_t i = 0; i < made[token].size(); ++i) EXPECT_NEAR(made[token][i], expected[token][i], 1e-12);
  }
}

/// Of all outputs, by weights that differ.
double weighted_sum(const Matrix& output) {
  double sum = 0;
  for (std::size_t token = 0; token < output.size(); ++token) {
    for (std::size_t i = 0; i < output[token].size(); ++i) {
      sum += std::cos(static_cast<double>(3 * token + i)) * output[token][i];
    }
  }
  return sum;
}

TEST_P(ExpertLayers, HaveTheGradientsOfFiniteDifferences) {
  const ExpertTensors tensors(GetParam());
  const ExpertLayer layer = tensors.layer();
  const at::Tensor output = layer.forward();
  at::Tensor incoming = at::empty_like(output);
  for (std::int64_t token = 0; token < output.size(0); ++token) {
    for (std::int64_t i = 0; i < output.size(1); ++i) {
      incoming[token][i].fill_(std::cos(static_cast<double>(3 * token + i)));
    }
  }
  const std::vector<at::Tensor> variables = layer.variables();
  const auto gradients = torch::autograd::grad({output}, variables, {incoming});
  constexpr double kStep = 1e-5;
  for (std::size_t variable = 0; variable < variables.size(); ++variable) {
    const at::Tensor elements = variables[variable].detach().view({-1});
    const at::Tensor gradient = gradients[variable].reshape({-1});
    for (std::int64_t i = 0; i < elements.size(0); ++i) {
      const double value = elements[i].item<double>();
      elements[i].fill_(value + kStep);
      const double above = weighted_sum(pass_all(tensors));
      elements[i].fill_(value - kStep);
      const double below = weighted_sum(pass_all(tensors));
      elements[i].fill_(value);
      EXPECT_NEAR(gradient[i].item<double>(), (above - below) / (2 * kStep), 1e-7) << variable << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, ExpertLayers,
                         testing::Values(Sizes{}, Sizes{.gated = true}, Sizes{.per_token = 1},
                                         Sizes{.experts = 6, .here = 3, .gated = true},  // of one of two ranks
                                         Sizes{.tokens = 2, .experts = 9, .here = 9, .gated = true}));  // idle ones

TEST(ExpertWorkload, RunsBothPassesInEveryTypeOfTheCpu) {
  const sampling::OperatorShape shape = {
      .tp = 2, .microbatch = 2, .sequence = 8, .hidden = 16, .experts = 8, .expert_width = 32, .experts_per_token = 2};
  for (const auto op : {sampling::SampledOperator::experts, sampling::SampledOperator::gated_experts}) {
    for (const auto type : {sampling::SampleType::bf16, sampling::SampleType::fp32}) {
      const OperatorWorkload workload(op, shape, type, /*gpu=*/false, 0);
      ASSERT_EQ(workload.passes(), 2);
      for (int run = 0; run < 2; ++run) {
        EXPECT_NO_THROW(workload.run(0));
        EXPECT_NO_THROW(workload.run(1));
      }
    }
  }
}

}  // namespace
}  // namespace lowgear::trainer

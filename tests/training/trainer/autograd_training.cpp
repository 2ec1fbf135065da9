#include "training/trainer/autograd_training.h"

#include <algorithm>
#include <cmath>

#include "training/trainer/engine/optimizer.h"
#include "training/trainer/reference_model.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

/// AdamW's memory of a parameter.
struct Moments {
  at::Tensor mean;
  at::Tensor variance;
  double steps = 0;
};

at::Tensor updated(const at::Tensor& value, const at::Tensor& gradient, Moments& moments,
                   const launcher::OptimizerConfig& o, double rate, double decay) {
  if (!moments.mean.defined()) moments.mean = moments.variance = at::zeros_like(gradient);
  moments.mean = o.beta1 * moments.mean + (1 - o.beta1) * gradient;
  moments.variance = o.beta2 * moments.variance + (1 - o.beta2) * gradient.square();
  moments.steps += 1;
  const at::Tensor wide = value.to(at::kDouble) * (1 - rate * decay) -
                          rate * (moments.mean / (1 - std::pow(o.beta1, moments.steps))) /
                              ((moments.variance / (1 - std::pow(o.beta2, moments.steps))).sqrt() + o.epsilon);
  return wide.to(at::kFloat);
}

}  // namespace

NamedParameters initial_parameters(launcher::TrainConfig config) {
  config.steps = 0;
  config.parallel = {};
  NamedParameters parameters;
  for (const auto& [name, value] : train(config).weights) {
    parameters.values[name] = value;
    parameters.decays[name] = value.dim() == 2;
  }
  return parameters;
}

std::map<std::string, at::Tensor> trained_by_autograd(const launcher::TrainConfig& config, NamedParameters parameters,
                                                      const IsTrained& trained) {
  std::map<std::string, Moments> moments;
  const TrainingData data(config);
  const launcher::OptimizerConfig& o = config.optimizer;
  for (std::int64_t step = 0; step < config.steps; ++step) {
    std::map<std::string, at::Tensor> leaves;
    for (const auto& [name, value] : parameters.values) {
      leaves[name] = value.detach().clone().requires_grad_(trained(name, step));
    }
    for (const Microbatch& microbatch : data.batch(step, 0, at::kCPU).microbatches) {
      const at::Tensor loss = reference_loss(config.model, leaves, microbatch.ids, microbatch.targets);
      torch::autograd::backward({loss / config.microbatches}, {});
    }
    double squares = 0;
    for (const auto& [name, leaf] : leaves) {
      if (trained(name, step)) squares += leaf.grad().to(at::kDouble).square().sum().item<double>();
    }
    const double clip = std::min(1.0, o.clip_norm / std::sqrt(squares));
    const double rate = learning_rate(o, step, config.steps);
    const torch::autograd::AutoGradMode no_gradient(false);
    for (auto& [name, value] : parameters.values) {
      if (!trained(name, step)) continue;
      const at::Tensor gradient = leaves[name].grad().to(at::kDouble) * clip;
      value = updated(value, gradient, moments[name], o, rate, parameters.decays[name] ? o.weight_decay : 0);
    }
  }
  return parameters.values;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

}  // namespace lowgear::trainer

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "training/launcher/config/train_config.h"
#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// The weights of a model by name.
struct NamedParameters {
  std::map<std::string, at::Tensor> values;
  std::map<std::string, bool> decays;
};

/// Those that a job of `config` begins with.
NamedParameters initial_parameters(launcher::TrainConfig config);

/// Whether a step, from 0, trains a parameter.
using IsTrained = std::function<bool(const std::string& name, std::int64_t step)>;

/// Trains by plain autograd and AdamW as its paper has it, in each step on the parameters that it trains and nothing
/// else: the others have no gradient (requires_grad is false), and do not exist for the optimizer and the clipping. As
/// in PyTorch, a parameter has its own number of optimizer steps.
std::map<std::string, at::Tensor> trained_by_autograd(const launcher::TrainConfig& config, NamedParameters parameters,
                                                      const IsTrained& trained);

/// Norm of the difference by that of `b`.
double relative_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace lowgear::trainer

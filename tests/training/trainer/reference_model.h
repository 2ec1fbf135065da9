#pragma once

#include <map>
#include <string>

#include "estimating/model/model_config.h"
#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// The whole model with plain autograd operations and nothing of the trainer's: what the trainer is compared with.
/// `weights` are whole, by the names of the files, in the shapes of the computation ([out, in]). The mean is
/// over the targets that are not negative.
[[nodiscard]] at::Tensor reference_loss(const model::ModelConfig& config,
                                        const std::map<std::string, at::Tensor>& weights, const at::Tensor& ids,
                                        const at::Tensor& targets);

}  // namespace lowgear::trainer

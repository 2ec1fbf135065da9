#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "training/launcher/config/train_config.h"
#include "training/launcher/training_text.h"
#include "training/trainer/engine/engine.h"

namespace lowgear::trainer {

/// The microbatches that the text of a job makes.
class TrainingData {
 public:
  /// Throws InputError as TrainingText.
  explicit TrainingData(const launcher::TrainConfig& config) : config_(&config), text_(config) {}

  /// The microbatches of a replica in a step, on `device`.
  [[nodiscard]] std::vector<Microbatch> microbatches(std::int64_t step, int replica, at::Device device) const;
  [[nodiscard]] dataset::BatchSampler& sampler() { return text_.sampler(); }

 private:
  const launcher::TrainConfig* config_;
  launcher::TrainingText text_;
};

}  // namespace lowgear::trainer

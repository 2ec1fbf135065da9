#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/batch_sampler.h"
#include "dataset/token_text.h"
#include "launcher/train_config.h"
#include "trainer/engine.h"

namespace lowgear {

/// The tokens of a job, its files' or made up, and the microbatches that they make.
class TrainingData {
 public:
  /// Throws InputError when a file is none, holds tokens outside the vocabulary's range, or is too short.
  explicit TrainingData(const TrainConfig& config);

  /// The microbatches of a replica in a step, on `device`.
  [[nodiscard]] std::vector<Microbatch> microbatches(std::int64_t step, int replica, at::Device device) const;
  [[nodiscard]] const BatchSampler& sampler() const { return *sampler_; }

 private:
  const TrainConfig* config_;
  std::optional<TokenFiles> files_;
  std::string made_up_;
  std::optional<BatchSampler> sampler_;
};

}  // namespace lowgear

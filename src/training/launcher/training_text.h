#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "training/dataset/batch_sampler.h"
#include "training/dataset/token_text.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// The tokens of a job, from its files or synthetic, and the samples that its steps use.
class TrainingText {
 public:
  /// Opens the files, or generates the text. Throws InputError as TokenFiles::open and BatchSampler, and when the
  /// vocabulary has no room for synthetic text.
  explicit TrainingText(const TrainConfig& config);
  TrainingText(const TrainingText&) = delete;
  TrainingText& operator=(const TrainingText&) = delete;
  ~TrainingText() = default;

  [[nodiscard]] const dataset::BatchSampler& sampler() const { return *sampler_; }
  [[nodiscard]] dataset::BatchSampler& sampler() { return *sampler_; }

 private:
  std::optional<dataset::TokenFiles> files_;
  std::string made_up_;
  std::optional<dataset::BatchSampler> sampler_;
};

/// The configuration of held-out text: that of the training with other token files, one or more.
[[nodiscard]] TrainConfig held_out_config(const TrainConfig& config, std::vector<std::filesystem::path> files);

/// The same with a quarter of a step's sequences, rounded up: for a loss that is measured often, on the same sequences
/// each time.
[[nodiscard]] TrainConfig held_out_quarter_config(const TrainConfig& config, std::vector<std::filesystem::path> files);

}  // namespace lowgear::launcher

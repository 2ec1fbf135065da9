#pragma once

#include <string>
#include <vector>

#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// A job of four stages, each a layer on a rank of its own, and 8 microbatches, with these settings.
inline TrainConfig four_rank_job(const std::vector<std::string>& settings, const std::string& folder = "/jobs") {
  return parse_train_config(
      "model: {vocabulary: 256, hidden: 64, layers: 4, heads: 4}\n"
      "data: {synthetic_tokens: 1000, sequence_length: 32}\n"
      "parallel: {pp: 4}\n"
      "microbatches: 8\n"
      "steps: 10\n",
      "train.yaml", folder, settings);
}

}  // namespace lowgear::launcher

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "training/launcher/config/train_config.h"
#include "training/trainer/run/training_run.h"

namespace lowgear::trainer {

/// What a run of a job left: the loss of each of its steps, and what each rank holds.
struct Outcome {
  std::int64_t first_step = 0;
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  std::map<std::int64_t, double> held_out_losses;                      ///< by step, where measured
  std::map<std::int64_t, std::vector<std::int64_t>> activation_bytes;  ///< by step, where measured
  std::map<int, at::Tensor> values;                                    ///< by rank: the store's buffer
  std::map<std::string, at::Tensor> weights;       ///< by name; where tensors are split, the first ranks' parts
  std::vector<std::int64_t> frozen;                ///< blocks, by step
  std::vector<std::vector<std::int64_t>> dropped;  ///< weight gradients, by step; of jobs that leave some out
  std::vector<std::string> partitions;             ///< by step
  std::map<std::int64_t, double> moved_bytes;      ///< by step, where layers moved
  std::map<int, std::int64_t> gradient_elements;   ///< by rank, at the end
};

/// Trains, and is asked to end after step `end_after`.
Outcome train(const launcher::TrainConfig& config, std::int64_t end_after = -1);

/// Six steps of a small Llama with tied embeddings.
[[nodiscard]] launcher::TrainConfig small_job(const protocol::JobParallel& parallel);

}  // namespace lowgear::trainer

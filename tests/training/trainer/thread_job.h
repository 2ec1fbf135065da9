#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimating/model/model_config.h"
#include "training/launcher/config/recompute.h"
#include "training/trainer/engine/engine.h"

namespace lowgear::trainer {

/// A training job whose ranks are threads of this process.
struct ThreadJob {
  model::ModelConfig config;
  std::string schedule = "1f1b";
  int pp = 1;
  int dp = 1;
  int tp = 1;
  int chunks = 1;        ///< virtual stages per rank
  int microbatches = 4;  ///< per replica
  launcher::Recompute recompute = launcher::Recompute::none;
  std::int64_t frozen_blocks = 0;       ///< with the embedding
  std::optional<Fp8Blocks> fp8 = {};    ///< empty: none
  bool zero1 = false;                   ///< replicas own parts of the gradients
  std::int64_t bucket_elements = 2000;  ///< of gradients that are summed in one go: several of them in small models
  std::uint64_t seed = 1;
  double first_message_factor = 1;  ///< what the first message of every rank is multiplied by: a fault
};

inline constexpr std::array kRecomputes = {launcher::Recompute::none, launcher::Recompute::attention,
                                           launcher::Recompute::full};

/// What one iteration made of it: whole tensors, put together from all ranks' parts.
struct ThreadJobResult {
  double loss = 0;  ///< mean over microbatches and replicas
  std::map<std::string, at::Tensor> weights;
  std::map<std::string, at::Tensor> gradients;  ///< of what is trained
  std::int64_t messages = 0;                    ///< that the ranks of pipelines sent each other
};

/// The microbatches of all replicas, replica after replica: the same for every layout.
[[nodiscard]] std::vector<Microbatch> test_microbatches(const model::ModelConfig& config, int count);

/// Runs one iteration. Throws what a rank threw.
[[nodiscard]] ThreadJobResult run_iteration(const ThreadJob& job);

/// Expects the same loss and the same gradients, bit by bit.
void expect_equal(const ThreadJobResult& result, const ThreadJobResult& expected);

}  // namespace lowgear::trainer

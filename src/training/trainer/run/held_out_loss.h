#pragma once

#include <cstdint>
#include <map>

#include "planning/schedule/schedule.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/rank_layout.h"
#include "training/trainer/engine/engine.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// The loss of a job's model on text that it is not trained on, on the same sequences each time.
class HeldOutLoss {
 public:
  /// `held_out` is a held-out configuration of `config`: its files, and the sequences of one batch, as many as a step
  /// of it has. `batches` follow each other in the text's random order. Ranks outlive this. Throws InputError as
  /// TrainingText.
  HeldOutLoss(const launcher::TrainConfig& config, launcher::TrainConfig held_out, const launcher::RankPlace& place,
              const Communicators& ranks, const at::TensorOptions& activations, std::int64_t batches = 1);

  /// Mean over the sequences of all batches, in nats, of the model that the ranks' stages are. A meeting of all ranks,
  /// between steps: forwards alone.
  [[nodiscard]] double measure(std::map<int, Stage*> stages);

 private:
  launcher::TrainConfig config_;  ///< of the held-out text
  launcher::RankPlace place_;
  const Communicators* ranks_;
  schedule::Schedule schedule_;
  TrainingData data_;
  at::TensorOptions activations_;
  std::int64_t batches_;
};

}  // namespace lowgear::trainer

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planning/schedule/schedule.h"
#include "planning/steps/work_model.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/rank_layout.h"
#include "training/launcher/training_text.h"
#include "training/trainer/engine/engine.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// A replica's part of a step, and what is known of all replicas.
struct StepBatch {
  std::vector<Microbatch> microbatches;
  /// Targets of all replicas that count in the loss; empty: all do, as no text is marked, no token masked.
  std::optional<std::int64_t> counted_tokens = {};
  std::vector<steps::Amounts> amounts = {};  ///< by replica and microbatch, the same on every rank; if asked for
};

/// The microbatches of a job's text.
class TrainingData {
 public:
  /// Throws InputError as TrainingText.
  explicit TrainingData(const launcher::TrainConfig& config) : config_(&config), text_(config) {}

  enum class Lengths : unsigned char { not_asked, of_all_replicas };
  /// The microbatches are on `device`. Reads each sample once; those of other replicas only to count or for lengths.
  [[nodiscard]] StepBatch batch(std::int64_t step, int replica, at::Device device,
                                Lengths lengths = Lengths::not_asked) const;
  /// Those of a step alone.
  [[nodiscard]] std::vector<steps::Amounts> amounts(std::int64_t step) const;
  /// What makes the mean over `steps` steps' targets that over those that count: 1 if all do, 0 if none does.
  [[nodiscard]] double loss_weight(std::optional<std::int64_t> counted, std::int64_t steps = 1) const;
  [[nodiscard]] dataset::BatchSampler& sampler() { return text_.sampler(); }

 private:
  [[nodiscard]] dataset::BatchSlice slice_of(int replica, int microbatch) const;
  /// Lengths of documents of ids, [samples, time] int64 on the CPU.
  [[nodiscard]] std::vector<std::int64_t> documents_of(const at::Tensor& ids) const;
  /// What a model gets of samples, on the CPU, [samples, time].
  struct Samples {
    at::Tensor ids;
    at::Tensor targets;
    SampleKeys keys;
    at::Tensor encoder_ids;  ///< defined if there are an encoder and a decoder
  };
  [[nodiscard]] Samples samples(std::int64_t step, const dataset::BatchSlice& slice) const;
  [[nodiscard]] Microbatch microbatch_of(Samples samples, at::Device device) const;
  [[nodiscard]] steps::Amounts amounts_of(const Samples& samples) const;

  const launcher::TrainConfig* config_;
  launcher::TrainingText text_;
};

/// The loss of a job's model on held-out text, on the same sequences each time.
class HeldOutLoss {
 public:
  /// `held_out` is a held-out configuration of `config`: its files, and the sequences of one batch, as many as a step
  /// of it has. `batches` follow each other in the text's random order. Ranks outlive this. Throws InputError as
  /// TrainingText.
  HeldOutLoss(const launcher::TrainConfig& config, launcher::TrainConfig held_out, const launcher::RankPlace& place,
              const Communicators& ranks, const at::TensorOptions& activations, std::int64_t batches = 1);

  /// Mean over the tokens of all batches that count, in nats, of the model that the ranks' stages are, without the
  /// load-balancing loss of experts. A meeting of all ranks, between steps: forwards alone.
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

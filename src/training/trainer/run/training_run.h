#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/client.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/engine/backend.h"
#include "training/trainer/measuring/activation_steps.h"
#include "training/trainer/measuring/profile_clocks.h"
#include "training/trainer/measuring/step_meter.h"
#include "training/trainer/measuring/unit_marks.h"
#include "training/trainer/run/adaptation.h"
#include "training/trainer/run/held_out_loss.h"
#include "training/trainer/run/step_result.h"
#include "training/trainer/run/step_totals.h"
#include "training/trainer/run/trained_part.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Loss that is no number any more: training must not continue from here.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// One rank's share of a training job: puts together the parts that a rank consists of, and calls them in turn.
class TrainingRun {
 public:
  /// `client` tells the agent about units and measures energy; it outlives the run. Throws InputError when
  /// configuration, files and schedule do not fit together.
  TrainingRun(launcher::TrainConfig config, Backend backend, client::Client& client,
              std::unique_ptr<SimulatedDevice> simulated_gpu);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;
  ~TrainingRun() = default;

  /// Steps that were done before, as the checkpoint that this run continues from says.
  [[nodiscard]] std::int64_t first_step() const { return steps_.before; }
  /// Runs all further steps, or until `asked_to_end` says so on any rank (all ranks then stop after the same step),
  /// saving checkpoints on the way and the last step's. Exports the weights when all steps are done, also where
  /// `asked_to_end` said so in the last. `report` is called on rank 0 after each. Throws Diverged, and Error when
  /// another rank has gone.
  void run(const std::function<bool()>& asked_to_end, const std::function<void(const StepResult&)>& report);
  /// Whether no step is left, the same on all ranks.
  [[nodiscard]] bool all_steps_done() const { return steps_.done >= config_.steps; }
  /// Meets all ranks once more and ends the connections. To be called when all has gone well.
  void finish();
  [[nodiscard]] ParameterStore& store() { return part_.store(); }

 private:
  struct StepCount {
    std::int64_t before = 0;  ///< this run
    std::int64_t done = 0;    ///< those included
  };

  [[nodiscard]] StepResult step(std::int64_t number, const std::function<bool()>& asked_to_end, bool& end);
  [[nodiscard]] StepTotals totals_of(const at::Tensor& loss, const Adaptation::Change& change, StepResult& result);
  void load_state();
  [[nodiscard]] double loss_share(const at::Tensor& sum) const;
  [[nodiscard]] ChosenPrecision choose_precision(const std::function<bool()>& asked_to_end);
  void require_finite(const StepResult& result) const;
  void follow_profile_clock(std::int64_t step);
  [[nodiscard]] int rank() const { return ranks_.world->rank(); }

  launcher::TrainConfig config_;
  Communicators ranks_;
  client::Client* client_;
  TrainingData data_;
  ProfileClocks profile_clocks_;
  TrainedPart part_;
  StepMeter meter_;
  UnitMarks marks_;
  ActivationSteps activations_;
  Adaptation adaptation_;
  std::optional<HeldOutLoss> evaluation_;
  std::optional<CheckpointFolder> checkpoints_;
  StepCount steps_;
  std::string policy_;  ///< whose clocks are followed; empty: none's, or not known
};

}  // namespace lowgear::trainer

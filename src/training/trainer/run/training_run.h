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
#include "training/trainer/envpipe/envpipe_loop.h"
#include "training/trainer/measuring/activation_meter.h"
#include "training/trainer/measuring/step_meter.h"
#include "training/trainer/measuring/unit_marks.h"
#include "training/trainer/run/adapting_loop.h"
#include "training/trainer/run/freezing_loop.h"
#include "training/trainer/run/repartition_loop.h"
#include "training/trainer/run/step_result.h"
#include "training/trainer/run/trained_part.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// All that changes between steps about how a job is trained: frozen blocks, the layers of each stage, clocks.
class Adaptation {
 public:
  /// What was changed before a step, on this rank.
  struct Change {
    std::optional<PartitionSwitch> moved;
    bool agent_accepts = true;  ///< the clocks that were asked for
  };

  /// All outlive this. Throws InputError when the configuration names what there is not.
  Adaptation(const launcher::TrainConfig& config, TrainedPart& part, client::Client& client, Communicators& ranks);

  /// For checkpoints.
  [[nodiscard]] SavedState& state();
  /// To be called once it is known how many steps were done before. Throws InputError when a log cannot be written, or
  /// the agent does not accept the clocks of an operating point.
  void begin(std::int64_t first_step);
  /// Before each step, on all ranks: the part is then as the step has to train it.
  [[nodiscard]] Change prepare(std::int64_t step);
  /// Empty where no weight gradients are left out.
  [[nodiscard]] std::optional<adapt::freezing::WeightGradientRotation::Drops> drops_at(std::int64_t step) const {
    return freezing_.drops_at(step);
  }
  [[nodiscard]] SlowerBlocks slower_at(std::int64_t step) const { return freezing_.slower_at(step); }
  /// After the optimizer's step, on all ranks: within the time of the step.
  void after_update(std::int64_t step, double learning_rate) { freezing_.after_step(step, learning_rate); }
  /// After the optimizer's step and all work of the device, on all ranks.
  void observe(std::int64_t step, const EnvPipeLoop::Observed& observed) {
    if (envpipe_) envpipe_->observe(step, observed);
  }
  /// After each step, on rank 0: reads it, and adds what was decided.
  void after_step(StepResult& result);

 private:
  const launcher::TrainConfig* config_;
  TrainedPart* part_;
  std::optional<HeldOutLoss> held_out_;
  FreezingLoop freezing_;
  std::optional<AdaptingLoop> adapting_;
  std::optional<RepartitionLoop> repartition_;
  std::optional<EnvPipeLoop> envpipe_;
};

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

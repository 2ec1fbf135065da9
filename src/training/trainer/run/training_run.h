#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/client.h"
#include "client/steps/begun_steps.h"
#include "client/steps/step_clocks.h"
#include "client/steps/step_rows.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/engine/backend.h"
#include "training/trainer/engine/loss_scale.h"
#include "training/trainer/envpipe/envpipe_loop.h"
#include "training/trainer/measuring/activation_meter.h"
#include "training/trainer/measuring/profile_clocks.h"
#include "training/trainer/measuring/unit_marks.h"
#include "training/trainer/run/change_loop.h"
#include "training/trainer/run/iteration_result.h"
#include "training/trainer/run/trained_part.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// The loss is NaN or infinite: training must not continue from here.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// One rank of a training job: joins the parts of a rank, and calls them in turn.
class TrainingRun {
 public:
  /// `client` marks units for the agent and measures iterations; it outlives the run. Throws InputError when
  /// configuration, files and schedule do not fit together.
  TrainingRun(launcher::TrainConfig config, Backend backend, client::Client& client,
              std::unique_ptr<SimulatedDevice> simulated_gpu);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;
  ~TrainingRun() = default;

  /// Steps done before this run, by the checkpoint that it continues from.
  [[nodiscard]] std::int64_t first_step() const { return steps_.before; }
  /// Runs all further steps, or until `asked_to_end` returns true on any rank (all ranks then stop after the same
  /// step). Saves checkpoints on the way and after the last step. Exports the weights once all steps are done. Calls
  /// `report` on rank 0 after each step. Throws Diverged, and Error when another rank has gone.
  void run(const std::function<bool()>& asked_to_end, const std::function<void(const IterationResult&)>& report);
  /// Whether no step is left, the same on all ranks.
  [[nodiscard]] bool all_steps_done() const { return steps_.done >= config_.steps; }
  /// Meets all ranks once more and ends the connections, after a successful run.
  void finish();
  [[nodiscard]] ParameterStore& store() { return part_.store(); }

 private:
  struct StepCount {
    std::int64_t before = 0;  ///< this run
    std::int64_t done = 0;    ///< in all
  };

  [[nodiscard]] IterationResult iterate(std::int64_t number, const std::function<bool()>& asked_to_end, bool& end);
  [[nodiscard]] IterationTotals totals_of(const ChangeLoop::Applied& applied, IterationResult& result);
  void add_envpipe();
  void load_state();
  /// A meeting of all ranks.
  void begin_expert_loads();
  [[nodiscard]] ChangeLoop::Applied apply_changes(std::int64_t iteration);
  [[nodiscard]] double loss_share(const at::Tensor& sum, double loss_weight) const;
  [[nodiscard]] ChosenPrecision choose_precision(const std::function<bool()>& asked_to_end);
  void require_finite(const IterationResult& result) const;
  void follow_profile_clock(std::int64_t step);
  void begin_step_clocks();
  [[nodiscard]] bool is_recorded(std::int64_t step) const;
  [[nodiscard]] int rank() const { return ranks_.world->rank(); }

  launcher::TrainConfig config_;
  Communicators ranks_;
  client::Client* client_;
  TrainingData data_;
  std::optional<LossScale> loss_scale_;  ///< of fp16
  ProfileClocks profile_clocks_;
  TrainedPart part_;
  std::optional<double> peak_flop_s_;  ///< of the GPU; empty: not known
  bool simulated_;                     ///< the GPU is Lowgear's simulation
  bool measures_energy_;               ///< there is a GPU whose energy can be read
  UnitMarks marks_;
  ActivationSteps activations_;
  std::optional<HeldOutLoss> freezing_loss_;  ///< by which the controller of freezing decides
  ChangeLoop changes_;
  std::optional<EnvPipeLoop> envpipe_;
  client::BegunSteps begun_;
  std::optional<client::StepClocks> step_clocks_;
  std::optional<client::StepRows> lengths_;       ///< on rank 0, where lengths differ and are recorded
  std::optional<client::StepRows> expert_loads_;  ///< of the first of tensor-parallel ranks, where experts are recorded
  std::optional<HeldOutLoss> evaluation_;
  std::optional<CheckpointFolder> checkpoints_;
  StepCount steps_;
  std::string policy_;  ///< whose clocks are followed; empty: none, or not known
};

}  // namespace lowgear::trainer

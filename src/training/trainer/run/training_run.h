#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/client/client.h"
#include "planning/schedule/schedule.h"
#include "training/launcher/rank_layout.h"
#include "training/launcher/train_config.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/engine/backend.h"
#include "training/trainer/engine/engine.h"
#include "training/trainer/engine/gradient_reducer.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/model/model_part.h"
#include "training/trainer/run/adapting_loop.h"
#include "training/trainer/run/freezing_loop.h"
#include "training/trainer/run/held_out_loss.h"
#include "training/trainer/run/profile_clocks.h"
#include "training/trainer/run/simulated_gpu.h"
#include "training/trainer/run/step_result.h"
#include "training/trainer/run/training_data.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Loss that is no number any more: training must not continue from here.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// One rank's share of a training job. Its fields are the parts that a rank consists of, each a class of its own: this
/// one only puts them together and calls them in turn, so that dividing it further would divide one sequence.
class TrainingRun {
 public:
  /// `client` tells the agent about units and measures energy; it outlives the run. Throws InputError when
  /// configuration, files and schedule do not fit together.
  TrainingRun(launcher::TrainConfig config, int rank, Backend backend, client::Client& client,
              std::unique_ptr<SimulatedDevice> simulated_gpu);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;
  ~TrainingRun();

  /// Steps that were done before, as the checkpoint that this run continues from says.
  [[nodiscard]] std::int64_t first_step() const { return first_step_; }
  /// Runs all further steps, or until `asked_to_end` says so on any rank (all ranks then stop after the same step),
  /// saving checkpoints on the way and the last step's. Exports the weights when all steps are done, also where
  /// `asked_to_end` said so in the last. `report` is called on rank 0 after each. Throws Diverged, and Error when
  /// another rank has gone.
  void run(const std::function<bool()>& asked_to_end, const std::function<void(const StepResult&)>& report);
  /// Whether no step is left, the same on all ranks.
  [[nodiscard]] bool all_steps_done() const { return steps_done_ >= config_.steps; }
  /// Meets all ranks once more and ends the connections. To be called when all has gone well.
  void finish();
  [[nodiscard]] ParameterStore& store() { return part_->store(); }

 private:
  class Observer;

  [[nodiscard]] StepResult step(std::int64_t number, const std::function<bool()>& asked_to_end, bool& end);
  void load_state();
  void assemble();
  /// Trains without the first `blocks` blocks from here on. To be called on all ranks, between the same steps.
  void freeze(std::int64_t blocks);
  /// What this step trains, and at which clocks. Returns whether this rank's agent accepts those.
  [[nodiscard]] bool prepare(std::int64_t step);
  /// Forwards and backwards of a step. Returns the sum of its losses that this rank has.
  [[nodiscard]] at::Tensor accumulate_gradients(const std::vector<Microbatch>& microbatches, UnitObserver* observer);
  [[nodiscard]] double loss_share(const at::Tensor& sum) const;
  [[nodiscard]] ChosenPrecision choose_precision(const std::function<bool()>& asked_to_end);
  void require_finite(const StepResult& result) const;
  void follow_profile_clock(std::int64_t step);
  void load_plan(const std::filesystem::path& plan);

  launcher::TrainConfig config_;
  int rank_;
  launcher::RankPlace place_;
  at::Device device_;
  std::optional<double> peak_flop_s_;  ///< of this rank's GPU
  Communicators ranks_;
  client::Client* client_;
  std::unique_ptr<SimulatedDevice> simulated_gpu_;
  schedule::Schedule schedule_;
  TrainingData data_;
  bool measures_;  ///< there is a GPU whose energy can be read
  ProfileClocks profile_clocks_;
  std::unique_ptr<ModelPart> part_;
  std::unique_ptr<PipelineEngine> engine_;
  std::optional<GradientReducer> reducer_;
  std::unique_ptr<AdamW> optimizer_;
  std::optional<HeldOutLoss> held_out_;    ///< for what decides about freezing
  std::optional<HeldOutLoss> evaluation_;  ///< for people
  std::optional<FreezingLoop> freezing_;
  std::optional<AdaptingLoop> adapting_;
  std::optional<CheckpointFolder> checkpoints_;
  std::int64_t first_step_ = 0;
  std::int64_t steps_done_ = 0;  ///< those before this run included
  std::unique_ptr<Observer> observer_;
};

}  // namespace lowgear::trainer

#pragma once

#include <cstdint>
#include <optional>

#include "client/client.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/envpipe/envpipe_loop.h"
#include "training/trainer/run/adapting_loop.h"
#include "training/trainer/run/freezing_loop.h"
#include "training/trainer/run/held_out_loss.h"
#include "training/trainer/run/repartition_loop.h"
#include "training/trainer/run/step_result.h"
#include "training/trainer/run/trained_part.h"
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

}  // namespace lowgear::trainer

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "estimating/model/partition.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/repartition.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/run/step_result.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Which partition each step has, and where a profile says so, which clocks: as the configuration lists partitions, or
/// as rank 0 chooses when the number of frozen blocks changes. All ranks learn it before any of them begins the step.
class RepartitionLoop final : public SavedState {
 public:
  /// `others` is what else is saved with it, `position` in the pipeline. All outlive this. Throws InputError as
  /// WorkPlanner.
  RepartitionLoop(const launcher::TrainConfig& config, SavedState& others, client::Client& client,
                  const Communicators& ranks, int position);

  /// As agreed last.
  [[nodiscard]] const std::string& partition() const { return partition_; }
  /// Before each step, on all ranks: the partition that it has, where the step before had `now` and so many blocks are
  /// frozen from here on. A meeting of all ranks where that number has changed.
  [[nodiscard]] std::string partition_at(std::int64_t step, std::int64_t frozen_blocks,
                                         std::span<const model::LayerRange> now);
  /// Then: the agent of this rank gets the clocks that belong to it. Returns whether it accepts them. Throws Error when
  /// it does not before the first step.
  [[nodiscard]] bool follow();
  /// After each step, on rank 0.
  void after_step(const StepResult& result);

  [[nodiscard]] std::string save() const override;
  void restore(const std::string& json, const std::string& source) override;

 private:
  [[nodiscard]] launcher::PlannedPartition choose(std::int64_t step, std::int64_t frozen_blocks,
                                                  std::span<const model::LayerRange> now) const;
  [[nodiscard]] double switch_time_s(const launcher::PartitionOptions& options) const;
  void agree(launcher::PlannedPartition chosen);

  const launcher::TrainConfig* config_;
  SavedState* others_;
  client::Client* client_;
  const Communicators* ranks_;
  int position_;
  std::optional<launcher::WorkPlanner> planner_;  ///< on rank 0
  std::optional<std::int64_t> decided_for_;       ///< frozen blocks
  std::string partition_;
  std::optional<std::string> plan_;  ///< that the agent has yet to get
  bool follows_ = false;             ///< the agent has had one
  double step_time_s_ = 0;           ///< of the last step; 0: none was done
  double bytes_per_s_;               ///< at which layers move
};

}  // namespace lowgear::trainer

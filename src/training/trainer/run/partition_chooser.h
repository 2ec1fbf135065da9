#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "client/client.h"
#include "estimating/model/partition.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/repartition.h"
#include "training/trainer/run/iteration_result.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Chooses the layers of each stage, and where the configuration has a profile the clocks that belong to them: from the
/// configured list, or on rank 0 when the number of frozen blocks changes.
class PartitionChooser {
 public:
  /// The configuration has `adapt.repartition`; `position` is the rank's place in the pipeline. All outlive this.
  /// Throws InputError as WorkPlanner.
  PartitionChooser(const launcher::TrainConfig& config, client::Client& client, const Communicators& ranks,
                   int position);

  /// As chosen last.
  [[nodiscard]] const std::string& partition() const { return partition_; }
  /// Before each iteration, on all ranks: its partition, where the iteration before had `now` and `frozen_blocks` are
  /// frozen from here on. A meeting of all ranks where that number has changed.
  [[nodiscard]] std::string partition_at(std::int64_t iteration, std::int64_t frozen_blocks,
                                         std::span<const model::LayerRange> now);
  /// Then: hands the clocks of that partition to this rank's agent. Returns whether it accepts them. Throws Error when
  /// it refuses the first ones.
  [[nodiscard]] bool follow();
  /// After each iteration, on rank 0.
  void after_iteration(const IterationResult& result);

  [[nodiscard]] Json save() const;
  /// What `save` returned, of a job that may have had other stages: it then begins with its own partition. Throws
  /// InputError with the JSON path.
  void restore(const JsonView& saved);

 private:
  [[nodiscard]] launcher::PlannedPartition choose(std::int64_t iteration, std::int64_t frozen_blocks,
                                                  std::span<const model::LayerRange> now) const;
  [[nodiscard]] double switch_time_s(const launcher::PartitionOptions& options) const;
  void agree(launcher::PlannedPartition chosen);

  const launcher::TrainConfig* config_;
  client::Client* client_;
  const Communicators* ranks_;
  int position_;
  std::optional<launcher::WorkPlanner> planner_;  ///< on rank 0
  std::optional<std::int64_t> chosen_for_;        ///< frozen blocks
  std::string partition_;
  std::optional<std::string> plan_;  ///< that the agent has yet to get
  bool follows_ = false;             ///< the agent has accepted one
  double step_time_s_ = 0;           ///< of the last iteration in which no layer moved; 0: none was done
  double bytes_per_s_;               ///< at which layers move
};

}  // namespace lowgear::trainer

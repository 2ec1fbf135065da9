#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimating/model/partition.h"
#include "planning/schedule/schedule.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/rank_layout.h"
#include "training/launcher/repartition.h"
#include "training/trainer/engine/engine.h"
#include "training/trainer/engine/gradient_reducer.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Cost of a change of the partition to this rank.
struct PartitionSwitch {
  double time_s = 0;
  double sent_bytes = 0;
};

/// One rank's part of a model, with its training: stages by the job's schedule, sums of gradients, the optimizer.
/// Between iterations its layers and its frozen blocks may change; the optimizer's address stays the same.
class TrainedPart {
 public:
  /// With the weights that training begins with. `ranks` outlive this. Throws InputError when configuration, files and
  /// schedule do not fit together.
  TrainedPart(launcher::TrainConfig config, at::Device device, Communicators& ranks);

  /// One iteration: the sums of gradients, over replicas and tied stages, too. As PipelineEngine::run.
  [[nodiscard]] at::Tensor compute_gradients(std::span<const Microbatch> microbatches, UnitObserver* observer,
                                             double loss_weight);
  /// Freezes the first `frozen_blocks` blocks from here on, and divides the layers by `partition`
  /// (TrainConfig::partition). Weights, moments and fp32 values move between the ranks of each pipeline. All ranks call
  /// it between the same iterations. Empty: the layers stay. Throws InputError when the partition does not fit the
  /// model, PeerLost when a rank has gone: the part is then unusable.
  [[nodiscard]] std::optional<PartitionSwitch> change(std::int64_t frozen_blocks, const std::string& partition);

  /// Runs EnvPipe's own order from here on, with early forwards by rank. All ranks call it between iterations.
  void reorder(std::vector<int> early_forwards);

  /// Switches fp8 on or off for the blocks that can compute in it: between iterations.
  void use_fp8(bool on);

  /// Sets the weight gradients that the next iterations leave out. All ranks call it between iterations, after
  /// `change`.
  void drop(const WeightGradientDrops& drops) { store().drop(drops); }

  [[nodiscard]] ParameterStore& store() { return part_->store(); }
  [[nodiscard]] AdamW& optimizer() { return *optimizer_; }
  [[nodiscard]] std::map<int, Stage*> stages() { return part_->stages(); }
  [[nodiscard]] ExpertLoads& expert_loads() { return part_->expert_loads(); }
  /// Null: another rank has it.
  [[nodiscard]] const Stage* find_stage(int index) const { return part_->find_stage(index); }
  [[nodiscard]] const schedule::Schedule& schedule() const { return schedule_; }
  /// Of every stage of the job.
  [[nodiscard]] const std::vector<model::LayerRange>& partition() const { return partition_; }
  [[nodiscard]] const launcher::RankPlace& place() const { return place_; }
  [[nodiscard]] at::Device device() const { return device_; }

 private:
  [[nodiscard]] std::unique_ptr<ModelPart> make_part(std::int64_t frozen_blocks) const;
  void freeze(std::int64_t blocks);
  [[nodiscard]] PartitionSwitch move_layers(std::vector<model::LayerRange> partition, std::int64_t frozen_blocks);
  void assemble();

  launcher::TrainConfig config_;  ///< with the current partition
  launcher::RankPlace place_;
  at::Device device_;
  Communicators* ranks_;
  std::vector<int> early_forwards_;  ///< by rank; empty: the configured schedule
  schedule::Schedule schedule_;
  std::vector<model::LayerRange> partition_;
  std::optional<Fp8Blocks> fp8_;  ///< empty: no block can compute in fp8
  std::unique_ptr<ModelPart> part_;
  std::unique_ptr<AdamW> optimizer_;
  std::unique_ptr<PipelineEngine> engine_;
  std::optional<GradientReducer> reducer_;
};

/// Moves the training state of every parameter, one number an element, from the store of one partition to that of the
/// next: to another place on this rank, or between the ranks of its pipeline, without a buffer in between.
class StateExchange {
 public:
  /// From the places that `from` has to those of `to`, whose layers have moved as `moves` says; `position` is this
  /// rank's. `peers` outlives this.
  StateExchange(const ParameterStore& from, const ParameterStore& to, std::span<const launcher::LayerMove> moves,
                int position, PointToPoint& peers);

  /// From `before`, laid out as the first store, to `after`, as the second: flat, of one type, on the device. Gaps of
  /// `after` between parameters are not written. A meeting of the ranks of the pipeline. Throws PeerLost.
  void run(const at::Tensor& before, const at::Tensor& after) const;
  /// Elements that this rank sends in a run.
  [[nodiscard]] std::int64_t sent() const;

 private:
  /// Neighbouring parameters of a block.
  struct Stretch {
    std::int64_t begin = 0;  ///< element of the buffer
    std::int64_t count = 0;
  };
  struct Copy {
    Stretch from;
    std::int64_t to = 0;
  };
  struct Message {
    Stretch part;
    int peer = 0;
    bool sends = false;
  };

  [[nodiscard]] static std::vector<Stretch> stretches_of(const ParameterStore& store, std::int64_t block);

  PointToPoint* peers_;
  std::vector<Copy> copies_;
  std::vector<Message> messages_;  ///< in the order of the layers, the same on both sides
};

}  // namespace lowgear::trainer

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "planning/adapt/change_record.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/measuring/metrics_file.h"
#include "training/trainer/run/freezing_window.h"
#include "training/trainer/run/gradient_drops.h"
#include "training/trainer/run/iteration_result.h"
#include "training/trainer/run/operating_point_setter.h"
#include "training/trainer/run/partition_chooser.h"
#include "training/trainer/run/trained_part.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Everything that changes about a job while it trains: frozen blocks, weight gradients that are left out, the layers
/// of each stage, the operating point. Before each iteration it asks what decides about each of them (the configured
/// schedule, or a controller on rank 0, whose decision all ranks learn), applies the changes on all ranks and records
/// them. A placebo decides and applies nothing.
class ChangeLoop final : public SavedState {
 public:
  /// Measures the mean loss on held-out text. A meeting of all ranks.
  using HeldOut = std::function<double()>;

  /// The change that was applied before an iteration, on this rank.
  struct Applied {
    std::optional<PartitionSwitch> moved;
    bool agent_accepts = true;  ///< the clocks that were asked for
  };

  /// `held_out` is called only where the configuration has a controller of freezing. All outlive this. Throws
  /// InputError when a file cannot be read.
  ChangeLoop(const launcher::TrainConfig& config, TrainedPart& part, client::Client& client, const Communicators& ranks,
             HeldOut held_out);

  /// Called once the checkpoint was restored, if there is one. Throws InputError when the record cannot be written, and
  /// Error when the agent refuses an operating point.
  void begin(std::int64_t first_iteration);
  /// Before each iteration, on all ranks: decides by the iterations before, and applies.
  [[nodiscard]] Applied apply(std::int64_t iteration);
  /// After the optimizer's step, on all ranks, within the iteration.
  void after_update(std::int64_t iteration, double learning_rate);
  /// After each iteration, on rank 0: reads the result, and adds the decisions since the last one.
  void after_iteration(IterationResult& result);

  [[nodiscard]] std::int64_t blocks_at(std::int64_t iteration) const;
  /// Blocks that were unfrozen a short time before the iteration, whose learning rate still rises.
  [[nodiscard]] SlowerBlocks slower_at(std::int64_t iteration) const;
  /// Empty where no weight gradients are left out.
  [[nodiscard]] std::optional<GradientDrops::Drops> drops_at(std::int64_t iteration) const;

  /// A trial under way is not saved: the job continues in the last good configuration.
  [[nodiscard]] std::string save() const override;
  void restore(const std::string& json, const std::string& source) override;

 private:
  /// Blocks [from, until) are trained again from an iteration on.
  struct Unfrozen {
    std::int64_t from = 0;
    std::int64_t until = 0;
    std::int64_t iteration = -1;
  };

  [[nodiscard]] bool freezes() const { return config_->freeze.controller.has_value(); }
  void agree(std::int64_t iteration);
  void adopt(const adapt::Configuration& next, std::int64_t iteration);
  void decide();
  [[nodiscard]] bool apply_operating_point();
  [[nodiscard]] std::string point_name() const;
  void write(const std::string& line);

  const launcher::TrainConfig* config_;
  TrainedPart* part_;
  const Communicators* ranks_;
  HeldOut held_out_;
  // What decides, and what applies; empty: the configuration does not have it.
  std::optional<adapt::ChangeController> controller_;  ///< observes on rank 0 alone
  std::optional<FreezingWindow> window_;
  std::optional<GradientDrops> drops_;
  std::optional<OperatingPointSetter> points_;
  std::optional<PartitionChooser> partitions_;
  // What all ranks know.
  adapt::Configuration agreed_;
  Unfrozen unfrozen_;
  bool window_ended_ = false;  ///< with the last iteration
  // On rank 0.
  adapt::ChangeStep seen_;                        ///< of the last iteration, until it is decided on
  std::vector<adapt::ChangeDecision> decisions_;  ///< not yet in a result
  std::optional<MetricsFile> record_;
};

}  // namespace lowgear::trainer

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/client.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/engine/engine.h"
#include "training/trainer/measuring/activation_meter.h"
#include "training/trainer/measuring/simulated_gpu.h"

namespace lowgear::trainer {

/// Time of a unit on this rank.
struct UnitTime {
  OpKind kind = OpKind::forward;
  double wait_s = 0;  ///< for its input, after the unit before it
  double time_s = 0;
};

/// Marks units for the client of this rank, runs them on its simulated GPU if it has one, and measures their
/// activations on request.
class UnitMarks final : public UnitObserver {
 public:
  /// The current stage of this rank with a number; null: another rank has it.
  using StageLookup = std::function<const Stage*(int stage)>;

  /// `gpu` may be null. Configuration and client outlive this.
  UnitMarks(const launcher::TrainConfig& config, client::Client& client, at::Device device,
            std::unique_ptr<SimulatedDevice> gpu, StageLookup stages);

  /// Before an iteration: what it computes, which simulated kernels depend on.
  void set_microbatches(std::span<const Microbatch> microbatches);
  void unit_waits(const schedule::Action& unit) override;
  void unit_begins(const schedule::Action& unit) override;
  void unit_ended(const schedule::Action& unit) override;
  /// Of the units since the last call, in their order; none unless the policy `envpipe` decides by them.
  [[nodiscard]] std::vector<UnitTime> take_times() { return std::exchange(times_, {}); }
  /// Start it before an iteration whose activations are measured, and stop it after.
  [[nodiscard]] ActivationMeter& activations() { return activations_; }
  /// Real computation took longer than the simulated one: times and energies are meaningless.
  [[nodiscard]] bool invalid() const { return gpu_ && gpu_->times().invalid(); }

 private:
  using Clock = std::chrono::steady_clock;

  void wait_for_gpu() const;
  [[nodiscard]] bool is_measured(const schedule::Action& unit) const;

  const launcher::TrainConfig* config_;
  client::Client* client_;
  at::Device device_;
  std::unique_ptr<SimulatedDevice> gpu_;
  StageLookup stages_;
  Clock::time_point waits_since_;
  Clock::time_point begun_;
  std::vector<UnitTime> times_;
  ActivationMeter activations_;
  std::vector<double> attention_;  ///< by microbatch, over that of whole sequences as documents
};

}  // namespace lowgear::trainer

#pragma once

#include <functional>
#include <memory>

#include "control/client/client.h"
#include "training/launcher/train_config.h"
#include "training/trainer/engine/engine.h"
#include "training/trainer/measuring/simulated_gpu.h"

namespace lowgear::trainer {

/// Marks units for the client of this rank, and runs them on its simulated GPU where it has one.
class UnitMarks final : public UnitObserver {
 public:
  /// The stage of this rank with a number, as it is now.
  using StageLookup = std::function<const Stage&(int stage)>;

  /// `gpu` may be null. Configuration and client outlive this.
  UnitMarks(const launcher::TrainConfig& config, client::Client& client, at::Device device,
            std::unique_ptr<SimulatedDevice> gpu, StageLookup stages);

  void unit_begins(const schedule::Action& unit) override;
  void unit_ended(const schedule::Action& unit) override;
  /// Real computation took longer than the simulated one: times and energies are meaningless.
  [[nodiscard]] bool invalid() const { return gpu_ && gpu_->times().invalid(); }

 private:
  void wait_for_gpu() const;

  const launcher::TrainConfig* config_;
  client::Client* client_;
  at::Device device_;
  std::unique_ptr<SimulatedDevice> gpu_;
  StageLookup stages_;
};

}  // namespace lowgear::trainer

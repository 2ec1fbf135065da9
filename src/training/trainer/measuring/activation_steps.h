#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planning/profile/recording.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/measuring/activation_meter.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Has the activations of a job measured in a few of its steps: the second after its start, and the second after each
/// change of what is trained or where its layers are. The first one also allocates what the others keep using.
class ActivationSteps {
 public:
  /// All outlive this.
  ActivationSteps(const launcher::TrainConfig& config, ActivationMeter& meter, Collective& world);

  /// Before each step, on all ranks, with what it trains.
  void prepare(std::int64_t step, std::int64_t frozen_blocks, const std::string& partition);
  /// After each step of so many stages, on all ranks: bytes of a microbatch by stage, of the rank of it that holds
  /// most; 0: nothing of the stage is trained. Empty where the step was not measured; else a meeting of all ranks, and
  /// written into the recording, if there is one.
  [[nodiscard]] std::vector<std::int64_t> finish(int stages);
  /// What was measured last; empty: nothing yet.
  [[nodiscard]] const std::vector<std::int64_t>& newest() const { return newest_; }

 private:
  struct Trained {
    std::int64_t frozen_blocks = 0;
    std::string partition;
    friend bool operator==(const Trained&, const Trained&) = default;
  };

  void record();

  const launcher::TrainConfig* config_;
  ActivationMeter* meter_;
  Collective* world_;
  Trained trained_;
  int steps_ = 0;          ///< that train this
  std::int64_t step_ = 0;  ///< the present one
  std::vector<std::int64_t> newest_;
  std::vector<profile::RecordedActivations> recorded_;  ///< of this rank
};

/// Where the client library records a rank: the newest part of the recording in `folder` that has one. Empty where
/// there is none.
[[nodiscard]] std::optional<std::filesystem::path> newest_rank_recording(const std::filesystem::path& folder, int rank);

}  // namespace lowgear::trainer

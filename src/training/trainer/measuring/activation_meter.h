#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planning/profile/recording.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/transport/compat.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Measures, by stage, the bytes that the allocator of a rank's device holds more after the forward of a microbatch
/// than before it: the bytes kept until its backward. Allocators of CPUs and of CUDA report every block to the thread
/// that gets or frees it, so only blocks of the training thread within the forward count: not those of messages, which
/// other threads free, nor those of backwards.
class ActivationMeter {
 public:
  explicit ActivationMeter(at::Device device);

  /// Between iterations: forgets earlier measurements. In the next iteration each stage has `forwards` forwards; the
  /// first of several does not count, as it also allocates blocks that all of them share.
  void start(int forwards);
  /// Stops measuring.
  void stop() { forwards_ = 0; }
  [[nodiscard]] bool is_measuring() const { return forwards_ > 0; }
  /// A forward on this thread, right before and right after it. `received_bytes` are those of its input where that was
  /// allocated for a message and is kept, too.
  void forward_begins(int stage);
  void forward_ended(int stage, std::int64_t received_bytes);

  /// The median of each stage's forwards: another thread may free a block of a collective only after the forward, and
  /// a GPU's allocator may give out a larger block than it was asked for.
  [[nodiscard]] std::map<int, std::int64_t> bytes_by_stage() const;

 private:
  class HeldBlocks;

  at::Device device_;
  int forwards_ = 0;  ///< of each stage; 0: it is off
  std::map<int, int> begun_;
  std::map<int, std::vector<std::int64_t>> bytes_;  ///< of the forwards that count
  std::shared_ptr<HeldBlocks> held_;
  std::optional<c10::DebugInfoGuard> reports_;  ///< while a forward is measured
};

/// Measures the activations of a job in a few steps: the second after its start, and the second after each change of
/// frozen blocks or layers. The first one also allocates blocks that the others keep using.
class ActivationSteps {
 public:
  /// All outlive this.
  ActivationSteps(const launcher::TrainConfig& config, ActivationMeter& meter, Collective& world);

  /// Before each step, on all ranks, with its frozen blocks and partition.
  void prepare(std::int64_t step, std::int64_t frozen_blocks, const std::string& partition);
  /// After each step, with the number of stages, on all ranks: bytes of a microbatch by stage, of the rank of it that
  /// holds most; 0: nothing of the stage is trained. Empty where the step was not measured; else a meeting of all
  /// ranks, and written into the recording, if there is one.
  [[nodiscard]] std::vector<std::int64_t> finish(int stages);
  /// The last measurement; empty: none yet.
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
  int steps_ = 0;          ///< with the current blocks and layers
  std::int64_t step_ = 0;  ///< the current one
  std::vector<std::int64_t> newest_;
  std::vector<profile::RecordedActivations> recorded_;  ///< of this rank
};

/// Where the client library records a rank: the newest part of the recording in `folder` that has one. Empty where
/// there is none.
[[nodiscard]] std::optional<std::filesystem::path> newest_rank_recording(const std::filesystem::path& folder, int rank);

}  // namespace lowgear::trainer

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// Measures, by stage, the bytes that the allocator of a rank's device holds more after the forward of a microbatch
/// than before it: what is kept until its backward. Allocators of CPUs and of CUDA report every block to the thread
/// that gets or frees it, so that only what the training thread does within the forward counts: nothing of messages,
/// which other threads free, and nothing of backwards.
class ActivationMeter {
 public:
  explicit ActivationMeter(at::Device device);

  /// Between iterations: forgets what was measured. In the next one each stage has so many forwards; where there are
  /// several, the first does not count, which also makes what all of them share.
  void start(int forwards);
  /// From here on nothing is measured.
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

}  // namespace lowgear::trainer

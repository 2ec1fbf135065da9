#include "training/trainer/measuring/activation_meter.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace lowgear::trainer {

/// Blocks of a device that were allocated since its making and not freed.
class ActivationMeter::HeldBlocks final : public c10::MemoryReportingInfoBase {
 public:
  explicit HeldBlocks(at::Device device) : device_(device) {}

  void reportMemoryUsage(void* block, std::int64_t bytes, compat::MemoryTotal /*allocated*/,
                         compat::MemoryTotal /*reserved*/, c10::Device device) override {
    if (device != device_) return;
    if (bytes > 0) {
      bytes_[block] = bytes;
    } else {
      bytes_.erase(block);  // an older one is none of this forward's
    }
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  [[nodiscard]] std::int64_t total_bytes() const {
    std::int64_t total = 0;
    for (const auto& [block, bytes] : bytes_) total += bytes;
    return total;
  }

 private:
  at::Device device_;
  std::unordered_map<void*, std::int64_t> bytes_;
};

ActivationMeter::ActivationMeter(at::Device device) : device_(device) {}

void ActivationMeter::start(int forwards) {
  forwards_ = forwards;
  begun_.clear();
  bytes_.clear();
}

void ActivationMeter::forward_begins(int stage) {
  reports_.reset();  // of a forward that failed
  if (forwards_ == 0 || (begun_[stage]++ == 0 && forwards_ > 1)) return;
  held_ = std::make_shared<HeldBlocks>(device_);
  // The kind under which allocators look for who wants their reports; the trainer runs no profiler of PyTorch.
  reports_.emplace(c10::DebugInfoKind::PROFILER_STATE, held_);
}

void ActivationMeter::forward_ended(int stage, std::int64_t received_bytes) {
  if (!reports_) return;
  reports_.reset();
  bytes_[stage].push_back(held_->total_bytes() + received_bytes);
}

std::map<int, std::int64_t> ActivationMeter::bytes_by_stage() const {
  std::map<int, std::int64_t> medians;
  for (auto [stage, bytes] : bytes_) {
    const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>((bytes.size() - 1) / 2);
    std::ranges::nth_element(bytes, middle);
    medians[stage] = *middle;
  }
  return medians;
}

}  // namespace lowgear::trainer

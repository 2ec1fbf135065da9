#include "training/trainer/measuring/activation_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/profile/recorded_activations.h"

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

namespace fs = std::filesystem;

ActivationSteps::ActivationSteps(const launcher::TrainConfig& config, ActivationMeter& meter, Collective& world)
    : config_(&config), meter_(&meter), world_(&world) {}

void ActivationSteps::prepare(std::int64_t step, std::int64_t frozen_blocks, const std::string& partition) {
  Trained trained{.frozen_blocks = frozen_blocks, .partition = partition};
  if (trained != trained_) {
    trained_ = std::move(trained);
    steps_ = 0;
  }
  ++steps_;
  step_ = step;
  const bool is_only_one = steps_ == 1 && step + 1 == config_->steps;
  if (steps_ == 2 || is_only_one) meter_->start(config_->microbatches);
}

std::vector<std::int64_t> ActivationSteps::finish(int stages) {
  if (!meter_->is_measuring()) return {};
  meter_->stop();
  const at::Tensor all = at::zeros({stages}, at::kLong);
  auto* bytes = all.data_ptr<std::int64_t>();
  for (const auto& [stage, own] : meter_->bytes_by_stage()) bytes[stage] = own;
  world_->all_reduce(all, Reduction::maximum);
  newest_.assign(bytes, bytes + stages);
  if (config_->recording) record();
  return newest_;
}

/// Training does not depend on it: a full disk does not end it.
void ActivationSteps::record() {
  for (const auto& [stage, bytes] : meter_->bytes_by_stage()) {
    if (bytes > 0) recorded_.push_back({.iteration = static_cast<int>(step_), .stage = stage, .bytes = bytes});
  }
  const std::optional<fs::path> folder = newest_rank_recording(*config_->recording, world_->rank());
  if (!folder || recorded_.empty()) return;
  try {
    write_file_atomically(*folder / profile::kActivationsFile, profile::write_recorded_activations(recorded_));
  } catch (const Error& error) {
    fmt::print(stderr, "the memory of activations is not recorded: {}; training continues\n", error.what());
  }
}

std::optional<fs::path> newest_rank_recording(const fs::path& folder, int rank) {
  const std::string name = fmt::format("rank-{:05}", rank);
  std::optional<fs::path> newest;
  for (int part = 0;; ++part) {
    fs::path of_rank = part == 0 ? folder / name : folder / fmt::format("part-{:05}", part) / name;
    std::error_code unreadable;
    if (!fs::exists(of_rank, unreadable)) return newest;
    newest = std::move(of_rank);
  }
}

}  // namespace lowgear::trainer

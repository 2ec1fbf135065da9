#include "training/trainer/measuring/unit_marks.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "training/trainer/engine/backend.h"

namespace lowgear::trainer {

UnitMarks::UnitMarks(const launcher::TrainConfig& config, client::Client& client, at::Device device,
                     std::unique_ptr<SimulatedDevice> gpu, StageLookup stages)
    : config_(&config),
      client_(&client),
      device_(device),
      gpu_(std::move(gpu)),
      stages_(std::move(stages)),
      activations_(device) {}

void UnitMarks::set_microbatches(std::span<const Microbatch> microbatches) {
  attention_.clear();
  for (const Microbatch& microbatch : microbatches) {
    double squares = 0;
    for (const std::int64_t length : microbatch.documents) squares += std::pow(length, 2);
    const double whole = static_cast<double>(config_->microbatch_size) * std::pow(config_->sequence_length, 2);
    attention_.push_back(microbatch.documents.empty() ? 1 : squares / whole);
  }
}

void UnitMarks::unit_waits(const schedule::Action& /*unit*/) { waits_since_ = Clock::now(); }

void UnitMarks::unit_begins(const schedule::Action& unit) {
  wait_for_gpu();
  begun_ = Clock::now();
  client_->unit_begin(unit.op, static_cast<std::uint16_t>(unit.stage), static_cast<std::uint32_t>(unit.microbatch));
  if (gpu_) {
    const Stage& stage = *stages_(unit.stage);
    const std::int64_t frozen = stage.range().layers.size() - stage.trained_blocks();
    const double attention = attention_.at(static_cast<std::size_t>(unit.microbatch));
    gpu_->begin(simulated_kernel(*config_->simulated_gpu, stage.range(), frozen, unit.op, attention));
  }
  if (is_measured(unit)) activations_.forward_begins(unit.stage);
}

/// A forward that keeps something: a stage of which nothing is trained has no backward.
bool UnitMarks::is_measured(const schedule::Action& unit) const {
  return activations_.is_measuring() && unit.op == OpKind::forward && stages_(unit.stage)->trained_blocks() > 0;
}

void UnitMarks::unit_ended(const schedule::Action& unit) {
  if (is_measured(unit)) {
    // The input from a stage of this rank is that stage's output, which has been counted.
    const bool received = stages_(unit.stage - 1) == nullptr;
    activations_.forward_ended(unit.stage, received ? stages_(unit.stage)->kept_input_bytes(unit.microbatch) : 0);
  }
  wait_for_gpu();
  if (gpu_) gpu_->end();
  if (config_->envpipe && !config_->server) {
    times_.push_back({.kind = unit.op,
                      .wait_s = std::chrono::duration<double>(begun_ - waits_since_).count(),
                      .time_s = std::chrono::duration<double>(Clock::now() - begun_).count()});
  }
  client_->unit_end(unit.op, static_cast<std::uint16_t>(unit.stage), static_cast<std::uint32_t>(unit.microbatch));
}

/// A GPU lags the CPU that gives it work. Where units decide about clocks or are recorded, both have to be at the same
/// place.
void UnitMarks::wait_for_gpu() const {
  const auto& repartition = config_->adapt.repartition;
  const bool decides = config_->plan || config_->profile || config_->envpipe || config_->server ||
                       config_->step_clocks || config_->adapt.slowdown || (repartition && repartition->profile);
  if (decides || config_->recording) synchronize_computation(device_);
}

}  // namespace lowgear::trainer

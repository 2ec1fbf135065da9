#include "training/trainer/measuring/step_meter.h"

#include <cstddef>
#include <utility>

#include "training/trainer/engine/backend.h"

namespace lowgear::trainer {

void StepMeter::begin() {
  begun_ = std::chrono::steady_clock::now();
  if (measures_energy_) window_ = client_->window_begin("step");
}

measure::WindowMeasurement StepMeter::take_energy() {
  if (!window_) return {};
  synchronize_computation(device_);
  return client_->window_end(*std::exchange(window_, std::nullopt));
}

double StepMeter::time_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

ProfileClocks::ProfileClocks(std::optional<launcher::ProfileConfig> profile) : profile_(std::move(profile)) {}

std::optional<int> ProfileClocks::change_before(std::int64_t step) {
  if (!profile_) return std::nullopt;
  const std::int64_t length = profile_->settle_iterations + profile_->iterations;
  const auto index = static_cast<std::size_t>(step / length);
  if (index >= profile_->clocks_mhz.size() || index_ == index) return std::nullopt;
  index_ = index;
  settled_from_ = step + profile_->settle_iterations;
  return profile_->clocks_mhz[index];
}

}  // namespace lowgear::trainer

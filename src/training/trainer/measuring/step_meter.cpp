#include "training/trainer/measuring/step_meter.h"

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

}  // namespace lowgear::trainer

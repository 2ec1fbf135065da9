#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "client/client.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Time and energy of the steps of one rank.
class StepMeter {
 public:
  /// The client outlives this. `peak_flop_s`: of the GPU, empty where it is not known.
  StepMeter(client::Client& client, at::Device device, std::optional<double> peak_flop_s)
      : client_(&client),
        device_(device),
        peak_flop_s_(peak_flop_s),
        measures_energy_(!client.status().gpu_uuid.empty()) {}

  /// Whether there is a GPU whose energy can be read.
  [[nodiscard]] bool measures_energy() const { return measures_energy_; }
  [[nodiscard]] std::optional<double> peak_flop_s() const { return peak_flop_s_; }
  void begin();
  /// Since `begin`, with all that the device was given to do; empty where there is no energy to measure. Once a step.
  [[nodiscard]] measure::WindowMeasurement take_energy();
  /// Since `begin`.
  [[nodiscard]] double time_s() const;

 private:
  client::Client* client_;
  at::Device device_;
  std::optional<double> peak_flop_s_;
  bool measures_energy_;
  std::chrono::steady_clock::time_point begun_;
  std::optional<measure::EnergyMeter::WindowId> window_;
};

/// The clocks of a run that profiles: each in turn for as many steps as configured, of which the first ones do not
/// count, as the clock settles. A run that continues from a checkpoint continues with the step's clock, which has to
/// settle once more.
class ProfileClocks {
 public:
  /// Empty: the run does not profile.
  explicit ProfileClocks(std::optional<launcher::ProfileConfig> profile);

  /// To be called before each step, in order: the clock to change to, in MHz; empty: none.
  [[nodiscard]] std::optional<int> change_before(std::int64_t step);
  /// Whether a step does not count, as the clock has just been changed.
  [[nodiscard]] bool settles_at(std::int64_t step) const { return step < settled_from_; }

 private:
  std::optional<launcher::ProfileConfig> profile_;
  std::optional<std::size_t> index_;  ///< of the present clock
  std::int64_t settled_from_ = 0;     ///< first step that counts for it
};

}  // namespace lowgear::trainer

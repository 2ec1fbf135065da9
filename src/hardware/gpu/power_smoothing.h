#pragma once

#include <optional>

namespace lowgear::gpu {

/// Power smoothing of a GPU (NVML 12.8, GPUs since Blackwell): hardware that keeps the power from rising and falling
/// fast, by burning power when there is no work. It costs energy, and its circuitry wears. Optional members are empty
/// where the driver does not report them.
struct PowerSmoothing {
  bool enabled = false;
  std::optional<int> active_preset;             ///< number of the preset profile in effect
  std::optional<int> presets;                   ///< how many there are; their numbers begin at 0
  std::optional<double> ceiling_w;              ///< of the total module power, as applied
  std::optional<double> floor_w;                ///< below which the power is not let fall, as applied
  std::optional<double> floor_percent;          ///< of the ceiling, of the active preset
  std::optional<double> ramp_up_w_per_s;        ///< of the active preset
  std::optional<double> ramp_down_w_per_s;      ///< of the active preset
  std::optional<double> ramp_down_delay_ms;     ///< of the active preset: hysteresis before the power may fall
  std::optional<double> lifetime_left_percent;  ///< of the circuitry

  bool operator==(const PowerSmoothing&) const = default;
};

}  // namespace lowgear::gpu

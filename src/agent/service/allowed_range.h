#pragma once

#include "hardware/gpu/gpu_setting.h"

namespace lowgear::agent {

/// What one user may set on one GPU.
struct AllowedRange {
  int min_clock_mhz = 0;  ///< of the SMs
  int max_clock_mhz = 0;
  double min_power_w = 0;
  double max_power_w = 0;
  bool power = false;                    ///< whether power limits may be set at all
  bool memory_clocks = false;            ///< whether memory clocks may be locked
  bool persistence = false;              ///< whether persistence mode may be set
  bool workload_power_profiles = false;  ///< whether workload power profiles may be requested
  bool power_smoothing = false;          ///< whether power smoothing may be set
};

/// Throws AccessDenied where the setting needs a right that is not given, naming its key in the configuration, and
/// InputError for a value outside of what is allowed.
void require_allowed(const gpu::GpuSetting& setting, const AllowedRange& allowed);

}  // namespace lowgear::agent

#pragma once

#include "agent/service/gpu_writer.h"

namespace lowgear::agent {

/// Every setting, within the range of an H100.
inline constexpr AllowedRange kAllowedEverything{.min_clock_mhz = 345,
                                                 .max_clock_mhz = 1980,
                                                 .min_power_w = 200,
                                                 .max_power_w = 700,
                                                 .power = true,
                                                 .memory_clocks = true,
                                                 .persistence = true,
                                                 .workload_power_profiles = true,
                                                 .power_smoothing = true};

}  // namespace lowgear::agent

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

/// Identity and possible settings of a GPU, queried once before the agent serves, so that later decisions need no
/// driver call.
struct KnownGpu {
  gpu::GpuIdentity identity;
  std::vector<int> sm_clocks_mhz;                ///< that can be locked, highest first; empty where it did not tell
  std::optional<gpu::PowerLimits> power_limits;  ///< of which minimum and maximum stay; empty where it did not tell
  std::string problem;                           ///< why it reported no clocks; empty when it did
};

[[nodiscard]] KnownGpu know(gpu::Gpu& gpu);

}  // namespace lowgear::agent

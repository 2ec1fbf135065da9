#include "agent/service/known_gpu.h"

namespace lowgear::agent {

KnownGpu know(gpu::Gpu& gpu) {
  KnownGpu known{.identity = gpu.identity(), .sm_clocks_mhz = {}, .power_limits = {}, .problem = {}};
  try {
    known.sm_clocks_mhz = gpu.supported_sm_clocks_mhz();
  } catch (const gpu::GpuError& error) {
    known.problem = error.what();
  }
  try {
    known.power_limits = gpu.power_limits();
  } catch (const gpu::GpuError&) {
    // Then no user may set one.
  }
  return known;
}

}  // namespace lowgear::agent

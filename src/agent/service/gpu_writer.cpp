#include "agent/service/gpu_writer.h"

#include <fmt/format.h>

#include <variant>

#include "agent/service/agent_service.h"
#include "base/core/error.h"

namespace lowgear::agent {
namespace {

/// `right` is the key of the configuration that gives it.
void require_right(bool allowed, const char* right) {
  if (!allowed)
    throw AccessDenied(fmt::format("this user may not do that; its entry of allow would need {}: true", right));
}

void require(const gpu::LockSmClocks& clocks, const AllowedRange& allowed) {
  const bool ordered = clocks.min_mhz <= clocks.max_mhz;
  if (ordered && clocks.min_mhz >= allowed.min_clock_mhz && clocks.max_mhz <= allowed.max_clock_mhz) return;
  throw InputError(fmt::format("clocks of {} to {} MHz are outside of what this agent allows; request {} to {} MHz",
                               clocks.min_mhz, clocks.max_mhz, allowed.min_clock_mhz, allowed.max_clock_mhz));
}

/// Every user who may use the GPU may reset a lock.
void require(const gpu::ResetSmClocks&, const AllowedRange&) {}

void require(const gpu::LockMemoryClocks& clocks, const AllowedRange& allowed) {
  require_right(allowed.memory_clocks, "memory_clocks");
  if (clocks.min_mhz > 0 && clocks.min_mhz <= clocks.max_mhz) return;
  throw InputError(
      fmt::format("{} to {} MHz is not a range of clocks; give the lower one first", clocks.min_mhz, clocks.max_mhz));
}

void require(const gpu::ResetMemoryClocks&, const AllowedRange& allowed) {
  require_right(allowed.memory_clocks, "memory_clocks");
}

void require(const gpu::SetPowerLimit& power, const AllowedRange& allowed) {
  require_right(allowed.power, "power");
  if (power.limit_w >= allowed.min_power_w && power.limit_w <= allowed.max_power_w) return;
  throw InputError(fmt::format("a power limit of {} W is outside of what this agent allows; request {} to {} W",
                               power.limit_w, allowed.min_power_w, allowed.max_power_w));
}

void require(const gpu::SetPersistenceMode&, const AllowedRange& allowed) {
  require_right(allowed.persistence, "persistence");
}

// Which profiles and presets there are, and which go together, only the driver knows: it is asked when they are set.
void require(const gpu::RequestWorkloadPowerProfiles&, const AllowedRange& allowed) {
  require_right(allowed.workload_power_profiles, "workload_power_profiles");
}

void require(const gpu::SetPowerSmoothing&, const AllowedRange& allowed) {
  require_right(allowed.power_smoothing, "power_smoothing");
}

}  // namespace

void require_allowed(const gpu::GpuSetting& setting, const AllowedRange& allowed) {
  std::visit([&](const auto& each) { require(each, allowed); }, setting);
}

}  // namespace lowgear::agent

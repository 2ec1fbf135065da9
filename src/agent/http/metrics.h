#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/cpu/cpu_meter.h"
#include "agent/mps/mps_sharing.h"
#include "agent/service/agent_service.h"
#include "report/metrics/exposition.h"

namespace lowgear::agent {

/// The agent's metrics. Values that a GPU does not report are left out, never zero and never `NaN`.
class Metrics {
 public:
  /// Processes a round of telemetry: adds up how long each GPU was throttled, and why, from one reading to the next. A
  /// gap of more than a second counts as one second.
  void observe(const std::vector<GpuStatus>& gpus);

  /// Everything. `mps` is null where no GPU is shared by MPS.
  [[nodiscard]] metrics::Exposition gather(Service& service, const std::vector<CpuEnergy>& cpus,
                                           const MpsSharing* mps = nullptr) const;

  /// Seconds for which a GPU was throttled since the agent's start.
  struct ThrottleSeconds {
    std::int64_t last_reading_ns = 0;
    double power_cap_s = 0;
    double thermal_s = 0;
    double hardware_slowdown_s = 0;
  };

 private:
  std::map<std::string, ThrottleSeconds> throttled_;  // by UUID
};

}  // namespace lowgear::agent

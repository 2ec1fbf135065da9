#pragma once

#include "agent/cpu/cpu_meter.h"
#include "hardware/gpu/rapl.h"

namespace lowgear::agent {

/// The energy of this machine's CPUs, as powercap shows it.
class RaplCpuMeter : public CpuMeter {
 public:
  explicit RaplCpuMeter(gpu::Rapl rapl = gpu::Rapl{});

  [[nodiscard]] std::vector<CpuEnergy> read() override;
  [[nodiscard]] std::string problem() const override { return rapl_.problem(); }

 private:
  gpu::Rapl rapl_;
};

}  // namespace lowgear::agent

#pragma once

#include "control/agent/cpu/cpu_meter.h"
#include "hardware/gpu/rapl.h"

namespace lowgear {

/// The energy of this machine's CPUs, as powercap shows it.
class RaplCpuMeter : public CpuMeter {
 public:
  explicit RaplCpuMeter(Rapl rapl = Rapl{});

  [[nodiscard]] std::vector<CpuEnergy> read() override;
  [[nodiscard]] std::string problem() const override { return rapl_.problem(); }

 private:
  Rapl rapl_;
};

}  // namespace lowgear

#include "estimator/gpu_power.h"

namespace lowgear {

GpuPowerModel power_model(std::string_view /*gpu*/, double limit_w) {
  GpuPowerModel power;
  power.limit_w = limit_w;
  return power;
}

}  // namespace lowgear

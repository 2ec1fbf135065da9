#include "estimating/estimator/gpu/power_limit.h"

#include <string>

#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {
std::optional<profile::NamedPowerLimit> power_limit_of(std::string_view gpu_name) {
  const std::optional<std::string_view> known = gpu_of_name(gpu_name);
  if (!known) return std::nullopt;  // any model of GPU may be named
  return profile::NamedPowerLimit{std::string(gpu_name), named_gpu(*known).power.limit_w};
}

}  // namespace lowgear::estimator

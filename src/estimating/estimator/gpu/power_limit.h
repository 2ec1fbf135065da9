#pragma once

#include <optional>
#include <string_view>

#include "planning/profile/plausibility.h"

namespace lowgear::estimator {

/// The data sheet's power limit of a GPU, named as the driver names it (`NVIDIA H100 80GB HBM3`) or as `lowgear
/// estimate` does (`h100-sxm`). Empty for other names, and for an empty one.
[[nodiscard]] std::optional<profile::NamedPowerLimit> power_limit_of(std::string_view gpu_name);

}  // namespace lowgear::estimator

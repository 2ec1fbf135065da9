#pragma once

#include <string_view>

#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {

/// How fast kernels run on a GPU of the catalogue, by its own name (no alias) and generation. gpu_tables.cpp names the
/// measurements that support each.
[[nodiscard]] KernelEfficiency kernel_efficiency(std::string_view gpu, Generation generation);

}  // namespace lowgear::estimator

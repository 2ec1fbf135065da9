#pragma once

#include <string>

#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {

/// How far a GPU of the catalogue may be changed and is still the one whose kernels and power were measured.
struct ValueRange {
  double lowest = 0;
  double highest = 0;
};

/// Power limits in watts: half of the data sheet's (the power model was compared with measurements down to 0.58 of it)
/// to 1.25 times, which is what custom cooling gives an A100 (NVIDIA's data sheet: 500 W in place of 400 W).
[[nodiscard]] ValueRange allowed_power_limit_w(const GpuModel& gpu);

/// Bandwidths of memory: half to twice the data sheet's.
[[nodiscard]] ValueRange allowed_memory_bytes_per_s(const GpuModel& gpu);

/// Sizes of memory, whatever the data sheet says: 1 GiB to 1 TiB.
[[nodiscard]] ValueRange allowed_memory_bytes();

/// Gives a GPU of the catalogue another power limit: times of kernels stay those that were measured under the data
/// sheet's, and under_power_limit (power_model.h) says what they become. The data sheet's own limit changes nothing.
void set_power_limit(GpuModel& gpu, double limit_w);

/// Gives it memory of another bandwidth. A byte takes as much energy as before.
void set_memory_bandwidth(GpuModel& gpu, double bytes_per_s);

/// Its name, and in brackets what is not as the catalogue has it: `h100-sxm (500 W, 96 GB)`.
[[nodiscard]] std::string describe(const GpuModel& gpu);

}  // namespace lowgear::estimator

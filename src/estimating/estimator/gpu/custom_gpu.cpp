#include "estimating/estimator/gpu/custom_gpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/core/units.h"

namespace lowgear::estimator {
namespace {

constexpr ValueRange kPowerLimitShares{0.5, 1.25};
constexpr ValueRange kBandwidthShares{0.5, 2};
constexpr ValueRange kMemoryBytes{kGiB, 1024 * kGiB};

ValueRange scaled(const ValueRange& shares, double whole) { return {shares.lowest * whole, shares.highest * whole}; }

}  // namespace

ValueRange allowed_power_limit_w(const GpuModel& gpu) {
  return scaled(kPowerLimitShares, named_gpu(gpu.name).power.limit_w);
}

ValueRange allowed_memory_bytes_per_s(const GpuModel& gpu) {
  return scaled(kBandwidthShares, named_gpu(gpu.name).memory_bytes_per_s);
}

ValueRange allowed_memory_bytes() { return kMemoryBytes; }

void set_power_limit(GpuModel& gpu, double limit_w) {
  gpu.power.kernel_limit_w = named_gpu(gpu.name).power.limit_w;
  gpu.power.limit_w = limit_w;
}

void set_memory_bandwidth(GpuModel& gpu, double bytes_per_s) {
  gpu.power.memory_w *= bytes_per_s / gpu.memory_bytes_per_s;
  gpu.memory_bytes_per_s = bytes_per_s;
}

std::string describe(const GpuModel& gpu) {
  const GpuModel usual = named_gpu(gpu.name);
  std::vector<std::string> changes;
  if (gpu.power.limit_w != usual.power.limit_w) changes.push_back(fmt::format("{:.4g} W", gpu.power.limit_w));
  if (gpu.memory_bytes != usual.memory_bytes) changes.push_back(fmt::format("{:.4g} GB", gpu.memory_bytes / kGiB));
  if (gpu.memory_bytes_per_s != usual.memory_bytes_per_s) {
    changes.push_back(fmt::format("{:.4g} GB/s", gpu.memory_bytes_per_s / kGiga));
  }
  return changes.empty() ? gpu.name : fmt::format("{} ({})", gpu.name, fmt::join(changes, ", "));
}

}  // namespace lowgear::estimator

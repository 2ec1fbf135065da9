#include "estimating/estimator/gpu/gpu_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/units.h"
#include "estimating/power/gpu_file.h"

namespace lowgear::estimator {

namespace {

double peak_or_zero(const GpuModel& gpu, DataType type) {
  switch (type) {
    case DataType::fp32:
      return gpu.fp32_flops;
    case DataType::tf32:
      return gpu.tf32_flops;
    case DataType::fp16:
      return gpu.fp16_flops;
    case DataType::bf16:
      return gpu.bf16 ? gpu.fp16_flops : 0;
    case DataType::fp8:
      return gpu.fp8_flops;
    case DataType::fp4:
      return gpu.fp4_flops;
  }
  return 0;
}

}  // namespace

std::string_view name(AttentionKernel kernel) {
  constexpr auto kNames = std::to_array<std::string_view>({"newest", "flash2", "flash1"});
  static_assert(kNames.size() == kAttentionKernelCount);
  return kNames[static_cast<std::size_t>(kernel)];
}

std::string_view name(DataType type) {
  switch (type) {
    case DataType::fp32:
      return "fp32";
    case DataType::tf32:
      return "tf32";
    case DataType::fp16:
      return "fp16";
    case DataType::bf16:
      return "bf16";
    case DataType::fp8:
      return "fp8";
    case DataType::fp4:
      return "fp4";
  }
  return "";
}

double bytes_of(DataType type) {
  switch (type) {
    case DataType::fp32:
    case DataType::tf32:
      return 4;
    case DataType::fp16:
    case DataType::bf16:
      return 2;
    case DataType::fp8:
      return 1;
    case DataType::fp4:
      return 0.5 + 1.0 / 16;
  }
  return 0;
}

double peak_flops(const GpuModel& gpu, DataType type) {
  const double peak = peak_or_zero(gpu, type);
  if (!(peak > 0)) {
    throw InputError(fmt::format("{} has no tensor cores for {}; give another --dtype, such as {}", gpu.name,
                                 name(type), gpu.bf16 ? "bf16" : "fp16"));
  }
  return peak;
}

double data_sheet_flops(const GpuModel& gpu, DataType type) { return gpu.data_sheet_share * peak_flops(gpu, type); }

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

namespace {

template <typename Change>
void for_each_power(GpuModel& gpu, const Change& change) {
  change(gpu.power);
  for (power::GpuPower& power : gpu.power_one_error_off) change(power);
}

}  // namespace

void set_power_limit(GpuModel& gpu, double limit_w) {
  const double kernel_limit_w = named_gpu(gpu.name).power.limit_w;
  for_each_power(gpu, [&](power::GpuPower& power) {
    power.kernel_limit_w = kernel_limit_w;
    power.limit_w = limit_w;
  });
}

void set_gpu_file(GpuModel& gpu, const power::GpuFile& file) {
  if (gpu_of_name(file.gpu) != gpu.name) {
    throw InputError(fmt::format("the GPU file was measured on {}; the job's GPU is {}", quote(file.gpu), gpu.name));
  }
  const auto replaced = [&, before = gpu.power](const power::GpuFile& by) {
    power::GpuPower power = before;
    power::replace(power, by, gpu.clocks.max_mhz, gpu.memory_bytes_per_s);
    return power;
  };
  gpu.power = replaced(file);
  for (const power::GpuFile& off : one_error_off(file)) gpu.power_one_error_off.push_back(replaced(off));
  gpu.power_source = describe(file);
}

void set_memory_bandwidth(GpuModel& gpu, double bytes_per_s) {
  for_each_power(gpu, [&](power::GpuPower& power) { power.memory_w *= bytes_per_s / gpu.memory_bytes_per_s; });
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

std::optional<profile::NamedPowerLimit> power_limit_of(std::string_view gpu_name) {
  const std::optional<std::string_view> known = gpu_of_name(gpu_name);
  if (!known) return std::nullopt;  // any model of GPU may be named
  return profile::NamedPowerLimit{std::string(gpu_name), named_gpu(*known).power.limit_w};
}

std::optional<double> blocking_power_of(std::string_view gpu_name) {
  const std::optional<std::string_view> known = gpu_of_name(gpu_name);
  if (!known) return std::nullopt;
  return named_gpu(*known).power.blocking_w;
}

}  // namespace lowgear::estimator

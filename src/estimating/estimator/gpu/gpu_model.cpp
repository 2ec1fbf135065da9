#include "estimating/estimator/gpu/gpu_model.h"

#include <fmt/format.h>

#include "base/core/error.h"

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
  }
  return 0;
}

}  // namespace

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
  }
  return "";
}

int bytes_of(DataType type) {
  switch (type) {
    case DataType::fp32:
    case DataType::tf32:
      return 4;
    case DataType::fp16:
    case DataType::bf16:
      return 2;
    case DataType::fp8:
      return 1;
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

}  // namespace lowgear::estimator

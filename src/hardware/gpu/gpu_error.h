#pragma once

#include <string_view>

#include "base/core/error.h"

namespace lowgear::gpu {

/// Why a call to a GPU failed.
enum class GpuErrorCode : unsigned char {
  not_supported,   ///< this GPU or driver does not have it
  no_permission,   ///< the caller may not; clocks and limits need root
  invalid_value,   ///< outside what the GPU accepts
  gpu_lost,        ///< fallen off the bus, or inaccessible until a reboot
  timeout,         ///< the driver did not answer in time
  driver_missing,  ///< no NVIDIA driver or no NVML library on this machine
  driver_error,    ///< anything else the driver reported
};

/// `not_supported`, `no_permission`, ...
[[nodiscard]] std::string_view name(GpuErrorCode code);

/// A call to a GPU failed. The message names the GPU, the request, the driver's error, and what to do.
class GpuError : public Error {
 public:
  GpuError(GpuErrorCode code, const std::string& message) : Error(message), code_(code) {}
  [[nodiscard]] GpuErrorCode code() const { return code_; }

 private:
  GpuErrorCode code_;
};

}  // namespace lowgear::gpu

#pragma once

#include <memory>
#include <string>

#include "client/marks/stream_driver.h"

namespace lowgear::client {

/// NVIDIA's driver, by the library that the process has (or would have) loaded: `file`, in general libcuda.so.1. Uses
/// the calling thread's context. Where the driver writes no numbers in streams (NVreg_EnableStreamMemOPs is off, or it
/// is older than CUDA 11.7) four bytes are filled with them instead. Throws Error when there is no such library, it
/// lacks what is needed, or the thread has no context.
[[nodiscard]] std::unique_ptr<StreamDriver> open_cuda_stream_driver(const std::string& file);

}  // namespace lowgear::client

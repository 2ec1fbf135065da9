#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "base/core/error.h"
#include "training/trainer/engine/backend.h"
#include "training/trainer/transport/transport.h"

// Of a build with a libtorch that has CUDA. PyTorch's wheels bring no headers of Gloo.

namespace lowgear::trainer {

void require_device(bool gpu) {
  if (!gpu) throw InputError("device: cpu needs a build with Debian's libtorch: PyTorch's own has no Gloo for C++");
}

Backend connect_backend(bool gpu, const launcher::RankLayout& layout, int rank, int local_rank,
                        const Rendezvous& rendezvous, std::chrono::seconds timeout) {
  require_device(gpu);
  const int devices = c10::cuda::device_count();
  if (local_rank >= devices) {
    throw InputError(
        fmt::format("rank {} has no GPU: this machine has {}, and it is rank {} here", rank, devices, local_rank));
  }
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(local_rank));
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, local_rank));
  return {at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(local_rank)),
          connect_nccl(layout, rank, local_rank, rendezvous, timeout), properties.name};
}

void synchronize(at::Device device) {
  if (device.is_cuda()) c10::cuda::device_synchronize();
}

void synchronize_computation(at::Device device) {
  if (device.is_cuda()) c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
}

}  // namespace lowgear::trainer

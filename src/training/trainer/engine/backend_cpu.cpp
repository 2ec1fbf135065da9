#include "base/core/error.h"
#include "training/trainer/engine/backend.h"
#include "training/trainer/transport/transport.h"

// Of a build with a libtorch that has no CUDA.

namespace lowgear::trainer {

void require_device(bool gpu) {
  if (!gpu) return;
  throw InputError(
      "device: cuda needs a build with a libtorch that has CUDA: configure with CMAKE_PREFIX_PATH set to what "
      "python3 -c "
      "'import torch; print(torch.utils.cmake_prefix_path)' prints");
}

Backend connect_backend(bool gpu, const launcher::RankLayout& layout, int rank, int /*local_rank*/,
                        const Rendezvous& rendezvous, std::chrono::seconds timeout) {
  require_device(gpu);
  return {at::kCPU, connect_gloo(layout, rank, rendezvous, timeout)};
}

void synchronize(at::Device /*device*/) {}
void synchronize_computation(at::Device /*device*/) {}

}  // namespace lowgear::trainer

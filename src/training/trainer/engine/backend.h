#pragma once

#include <chrono>
#include <string>

#include "training/launcher/rank_layout.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// The device of a rank, and its transport to the others.
struct Backend {
  at::Device device = at::kCPU;
  Communicators ranks;
  std::string gpu_name = {};  ///< as CUDA calls it; empty on the CPU
};

/// Throws InputError when this build cannot compute on GPUs (`gpu`), or on the CPU. Does not check whether
/// there are GPUs.
void require_device(bool gpu);

/// With `gpu`: CUDA device `local_rank` and NCCL; else the CPU and Gloo. Throws InputError when this build or this
/// machine has no such thing, and as connect_gloo and connect_nccl do.
[[nodiscard]] Backend connect_backend(bool gpu, const launcher::RankLayout& layout, int rank, int local_rank,
                                      const Rendezvous& rendezvous, std::chrono::seconds timeout);

/// Waits until the device has completed all work. Does nothing on the CPU.
void synchronize(at::Device device);
/// The same for what this thread has given it to compute: transfers may continue.
void synchronize_computation(at::Device device);

}  // namespace lowgear::trainer

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/rank/rank_environment.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::client {

/// The GPU that CUDA gives this process as device `local_rank`: CUDA_VISIBLE_DEVICES lists GPUs by UUID (or a beginning
/// of it), MIG UUID or number; without it, all of them in PCI order. A launcher that shows every process only its own
/// GPU makes that device 0, whatever the local rank.
///
/// Numbers follow CUDA_DEVICE_ORDER: PCI_BUS_ID is NVML's order too. CUDA's default, FASTEST_FIRST, is the same as long
/// as all GPUs are of one model; numbers are refused where they are not. Throws InputError saying what to set.
///
/// Throws GpuError when the process has no GPU through no mistake of its own: it is shown none (an empty list, -1), the
/// machine has none, or one does not answer. Then those after it may have moved up by a number, and only UUIDs count.
[[nodiscard]] gpu::Gpu& choose_gpu(const gpu::GpuSystem& system, int local_rank, const Environment& environment);

/// The GPU of this process, and the driver through which it is read.
struct RankGpu {
  std::unique_ptr<gpu::GpuSystem> system;
  gpu::Gpu* gpu = nullptr;  ///< null: there is none
  std::string problem;      ///< why not

  [[nodiscard]] bool simulated() const { return gpu != nullptr && system->simulated(); }
};

/// The GPU that is named (UUID or PCI address), or else that of `choose_gpu`. Throws InputError when the GPU that is
/// named does not exist.
[[nodiscard]] RankGpu open_rank_gpu(const std::string& named, int local_rank, const Environment& environment);

/// The GPUs of all ranks of a job that runs on one node, by local rank; `own` is that of this rank. How many ranks
/// there are on the node comes from the launcher: LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, or
/// Slurm's number of nodes. Throws InputError where it is not known, the job has more nodes, or this rank is shown only
/// its own GPU.
[[nodiscard]] std::vector<gpu::Gpu*> job_gpus(const RankGpu& own, const RankInfo& rank, const Environment& environment);

}  // namespace lowgear::client

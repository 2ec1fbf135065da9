#pragma once

#include <vector>

#include "client/rank/gpu_choice.h"
#include "client/rank/rank_environment.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::client {

/// The GPUs of all ranks of a job that runs on one node, by local rank; `own` is that of this rank. How many ranks
/// there are on the node comes from the launcher: LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, or
/// Slurm's number of nodes. Throws InputError where it is not known, the job has more nodes, or this rank is shown only
/// its own GPU.
[[nodiscard]] std::vector<gpu::Gpu*> job_gpus(const RankGpu& own, const RankInfo& rank, const Environment& environment);

}  // namespace lowgear::client

#include "client/rank/job_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/core/error.h"

namespace lowgear::client {
namespace {

std::optional<int> ranks_on_node(const RankInfo& rank, const Environment& environment) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (const std::optional<int> ranks = number_from_environment(environment, name)) return ranks;
  }
  if (rank.launcher != "Slurm") return std::nullopt;
  for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}) {
    if (const std::optional<int> nodes = number_from_environment(environment, name)) {
      return *nodes == 1 ? std::optional(rank.world_size) : std::optional(0);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<gpu::Gpu*> job_gpus(const RankGpu& own, const RankInfo& rank, const Environment& environment) {
  if (own.gpu == nullptr) throw InputError(own.problem);
  if (rank.world_size == 1) return {own.gpu};
  const std::optional<int> ranks = ranks_on_node(rank, environment);
  if (!ranks) {
    throw InputError("it is not known whether all ranks of the job are on this node; set LOCAL_WORLD_SIZE");
  }
  if (*ranks != rank.world_size) {
    throw InputError(
        fmt::format("the job has {} ranks and not all of them are on this node: the operating point of such a job "
                    "cannot be searched",
                    rank.world_size));
  }
  std::vector<gpu::Gpu*> gpus;
  for (int local_rank = 0; local_rank < *ranks; ++local_rank) {
    gpu::Gpu* const gpu = &choose_gpu(*own.system, local_rank, environment);
    if (std::ranges::find(gpus, gpu) != gpus.end()) {
      throw InputError("this rank is shown only its own GPU: show every rank the GPUs of all (CUDA_VISIBLE_DEVICES)");
    }
    gpus.push_back(gpu);
  }
  if (std::ranges::find(gpus, own.gpu) == gpus.end()) {
    throw InputError(
        "this rank's GPU is none of those that the local ranks would have; which the others have is not known");
  }
  return gpus;
}

}  // namespace lowgear::client

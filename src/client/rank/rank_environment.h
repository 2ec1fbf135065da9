#pragma once

#include <optional>
#include <string>

#include "base/core/environment.h"

namespace lowgear::client {

/// The position of a process in its job, from its launcher.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  bool world_size_known = true;  ///< false: a launcher says a rank and no size
  std::string launcher;          ///< `torchrun`, `Open MPI`, `MVAPICH`, `MPICH`, `LSF`, `Flux`, `Slurm`, or `none`
  std::string job;               ///< the scheduler's job id; empty when there is none
  std::string run;       ///< tells this start of the job from others, the same in all ranks; empty when nothing does
  std::string user;      ///< for whom the job trains, the same in all ranks; empty when nothing says it
  std::string conflict;  ///< two launchers say different things; empty when they do not
};

/// A rank or a size that a variable holds; empty when it is not set, or empty. Throws InputError when it is no whole
/// number from 0.
[[nodiscard]] std::optional<int> number_from_environment(const Environment& environment, const char* name);

/// Reads what torchrun (RANK, LOCAL_RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK, ..._LOCAL_RANK, ..._SIZE),
/// MVAPICH (MV2_COMM_WORLD_...), MPICH (PMI_RANK, MPI_LOCALRANKID, PMI_SIZE), LSF (JSM_NAMESPACE_...), Flux
/// (FLUX_TASK_RANK, FLUX_TASK_LOCAL_ID, FLUX_JOB_SIZE) and Slurm (SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS) set. The
/// first of them that sets a rank is used: within a Slurm job, torchrun started the process. Throws InputError on a
/// value that is no whole number, or a rank outside the world.
///
/// Where a launcher says a rank and no size, the size is taken to be that of the ranks up to this one, which is as much
/// as a process that meets no others has to know.
///
/// `run` is LOWGEAR_RUN, or else Slurm's job and step, torchrun's run id (its default `none` is no id), or both, with
/// how often each was started again. `user` is LOWGEAR_USER, or else SLURM_JOB_USER. The user of the process is not: in
/// containers it differs between nodes, or is root everywhere.
[[nodiscard]] RankInfo rank_from_environment(const Environment& environment);

/// The same for a program that meets the other ranks: throws InputError also where the launcher that counts says a rank
/// and no size, or where NNODES and NPROC_PER_NODE (PET_NNODES, ...) are not the ranks of the launcher. A batch script
/// of Slurm, which has a rank and is in no step, may be without a size.
[[nodiscard]] RankInfo job_rank_from_environment(const Environment& environment);

/// Whether a variable says that the job has other nodes than this one: NNODES, NODE_RANK and their other names.
/// Throws InputError where one is neither empty nor such a number.
[[nodiscard]] bool names_several_nodes(const Environment& environment);

/// For a program that starts all ranks of a job itself, on this node. Throws InputError where a variable says that
/// there are other nodes, another number of ranks on each, or a size without a rank: every node would run the whole
/// job.
void require_all_ranks_here(const Environment& environment, int ranks);

}  // namespace lowgear::client

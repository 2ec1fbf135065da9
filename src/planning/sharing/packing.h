#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/sharing/contention.h"

namespace lowgear::sharing {

/// Most jobs of a node: all ways to group them are looked at.
inline constexpr std::size_t kMaxJobs = 16;

/// How processes share a GPU.
enum class SharingMode : unsigned char {
  time_slicing,  ///< the driver alternates between processes; their kernels never run concurrently
  mps,           ///< NVIDIA's Multi-Process Service: kernels of several processes run concurrently
};
[[nodiscard]] std::string_view name(SharingMode mode);

/// NVML's compute modes.
enum class ComputeMode : unsigned char { shared, exclusive_process, prohibited };

/// What becomes of a GPU that no job needs any more.
enum class FreedGpus : unsigned char {
  idle,  ///< it draws its idle power in this node
  used,  ///< it is switched off, or other work pays for it
};

/// The GPUs of a node, which are alike.
struct GpuFacts {
  double memory_gib = 0;
  double idle_w = 0;   ///< no process uses it
  double awake_w = 0;  ///< a process has a context and no kernel runs, at working clocks
  double limit_w = 0;  ///< power limit
  ComputeMode compute_mode = ComputeMode::shared;
  bool mig = false;
};

struct PackOptions {
  SharingMode mode = SharingMode::mps;
  FreedGpus freed = FreedGpus::idle;
  int max_jobs_per_gpu = 2;           ///< 2 to kMaxJobsPerGpu
  double max_slowdown = 0.05;         ///< predicted, of every job; a share
  std::optional<double> margin = {};  ///< empty: default_margin(mode)
  double reserve_gib = 1;             ///< memory of each GPU that stays free
};

/// Share by which sharing slows jobs down beyond what shared_slowdowns models. MPS: jobs that contend for memory were
/// published to run up to 30 % slower, thus 1 / 0.7 - 1; time slicing: 0.05, assumed.
[[nodiscard]] double default_margin(SharingMode mode);

/// A prediction with its bounds.
struct Bounded {
  double low = 0;
  double predicted = 0;
  double high = 0;
};

/// Jobs that share GPUs: as many as the largest of them has, with one rank of each job at most on each.
struct Group {
  std::vector<std::size_t> jobs;  ///< places in the list of jobs, rising
  int gpus = 0;
  std::vector<Slowdown> slowdowns;  ///< of the jobs, in that order
  double memory_gib = 0;            ///< of the fullest GPU
  double apart_w = 0;               ///< power that the same work draws on GPUs of its own
  Bounded saved_w;                  ///< of that, while all of them run
};

/// Jobs that cannot share a GPU.
struct Refusal {
  std::vector<std::size_t> jobs;
  std::string reason;
};

/// Which jobs of a node share GPUs.
struct Packing {
  std::string refused;            ///< why no GPU may be shared at all; empty: they may
  std::vector<Group> groups;      ///< every job is in one group; a job that stays alone has its own
  std::vector<Refusal> refusals;  ///< every pair that does not fit, or is not worth it
  int gpus_apart = 0;
  int gpus_packed = 0;
  double apart_w = 0;
  Bounded saved_w;
};

/// The group's figures, or why these jobs cannot share.
///
/// Power of a GPU is that of an awake one and what work adds to it, which follows the work (J per iteration stay). So
/// a group of jobs i with g_i GPUs and slowdown s_i on G GPUs saves (awake - freed) (sum g_i / s_i - G), with freed the
/// idle power, or 0 where freed GPUs are used: both sides do the same work, and the side that is done first waits at
/// the power of a freed GPU. On all GPUs of a group the slowdown is that of the fullest: ranks of a job wait for each
/// other.
struct GroupCheck {
  Group group;
  std::string refused;  ///< empty: they can
};
[[nodiscard]] GroupCheck check_group(std::span<const JobLoad> jobs, const std::vector<std::size_t>& members,
                                     const GpuFacts& gpu, const PackOptions& options);

/// The grouping with the largest predicted saving, exactly: by dynamic programming over sets of jobs. Throws InputError
/// with more than kMaxJobs jobs, a job that does not fit one GPU alone or draws less than an awake GPU, and options out
/// of range.
[[nodiscard]] Packing pack_jobs(std::span<const JobLoad> jobs, const GpuFacts& gpu, const PackOptions& options);

}  // namespace lowgear::sharing

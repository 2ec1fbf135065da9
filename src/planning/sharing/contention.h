#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::sharing {

/// Most jobs that one GPU is shared by.
inline constexpr int kMaxJobsPerGpu = 4;

/// The load of a job on a GPU: it alternates between kernels and time without one (host, network, input).
struct Demand {
  double busy = 0;   ///< share of its time in which a kernel runs when it has the GPU alone, [0, 1]
  double width = 1;  ///< share of the SMs that its kernels occupy, (0, 1]; 1 under time slicing, which shares no SM
};

/// Time of an iteration on the shared GPU divided by that alone, at least 1.
struct Slowdown {
  double low = 1;
  double predicted = 1;
  double high = 1;
};

/// Slowdown of each of the jobs that share one GPU, in their order.
///
/// `predicted`: a Markov chain over the sets of jobs that have a kernel. Kernels of a set run at full rate while their
/// widths sum to 1 at most, and all at 1 / sum above it (proportional sharing). For full widths that is processor
/// sharing with one customer per job, where the result needs the means only, whatever the lengths of kernels and pauses
/// (Baskett, Chandy, Muntz, Palacios 1975), as long as the jobs do not keep step with each other; so it is for any two
/// jobs.
///
/// `low`: the SMs cannot do more than their full rate, while the other jobs are as slow as they can be.
/// `high`: every kernel overlaps with those of the others as long as these run at all; multiplied by 1 + `margin` for
/// what the model leaves out (caches, memory bandwidth, switches between contexts).
///
/// Throws InputError with more than kMaxJobsPerGpu jobs, and where a busy share, a width or the margin is out of range.
[[nodiscard]] std::vector<Slowdown> shared_slowdowns(std::span<const Demand> jobs, double margin);

/// Most GPUs of one job on a node.
inline constexpr int kMaxGpusOfJob = 64;

/// A job of a node as it was monitored alone on its GPUs, one of its ranks on each.
struct JobLoad {
  std::string name;
  int gpus = 1;
  double busy = 0;                  ///< share of time in which a kernel runs on its busiest GPU (NVML's utilisation)
  std::optional<double> sm_active;  ///< share of SMs with work, mean over all time (DCGM_FI_PROF_SM_ACTIVE)
  double memory_gib = 0;            ///< of its fullest GPU
  double power_w = 0;               ///< mean of its GPUs
  std::optional<double> iteration_s;
};

/// What `lowgear monitor --out FILE` measured of a job.
struct MonitoredLoad {
  int gpus = 0;
  double busy = 0;     ///< of the busiest GPU
  double power_w = 0;  ///< mean of the GPUs
  bool simulated = false;
};

/// Reads such a file. Throws InputError with the place where it is no measurement, or a GPU has no power or
/// utilisation.
[[nodiscard]] MonitoredLoad read_monitored_load(std::string_view json, const std::string& source);

/// The measurement that a cell of the table names.
using MeasurementReader = std::function<MonitoredLoad(const std::string& file)>;

/// Jobs of a node, and whether any of them ran on simulated GPUs.
struct JobTable {
  std::vector<JobLoad> jobs;
  bool simulated = false;
};

/// Reads a CSV with a row per job and the columns
///   job          name, once
///   memory_gib   device memory that it holds
///   measurement  file of `lowgear monitor`; instead of the next three
///   gpus         default 1
///   busy_pct     0 to 100
///   power_w      mean, of one GPU
///   sm_active_pct, iteration_s   may be absent or empty
/// Throws InputError with line and column on a missing column, a number out of range, a name that occurs twice, and SMs
/// that are active longer than kernels run; and as `measurement`.
[[nodiscard]] JobTable read_job_table(std::string_view csv, const std::string& source,
                                      const MeasurementReader& measurement);

}  // namespace lowgear::sharing

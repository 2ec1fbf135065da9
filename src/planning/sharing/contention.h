#pragma once

#include <span>
#include <vector>

namespace lowgear::sharing {

/// Most jobs that one GPU is shared by.
inline constexpr int kMaxJobsPerGpu = 4;

/// What a job asks of a GPU: it alternates between kernels and time without one (host, network, input).
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

}  // namespace lowgear::sharing

#pragma once

#include <span>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/profile/recording.h"
#include "planning/schedule/dag.h"

namespace lowgear::report {

/// A unit as it ran. Times are seconds since the iteration began.
struct MeasuredOp {
  int stage = 0;  ///< virtual stage
  OpKind kind = OpKind::forward;
  int microbatch = 0;
  int clock_mhz = 0;  ///< that was asked for when it ended; 0: none
  double start_s = 0;
  double end_s = 0;
};

/// Mean power between two values of a GPU's energy counter.
struct MeasuredPower {
  double start_s = 0;
  double power_w = 0;
};

/// SM clock that a GPU reported.
struct MeasuredClock {
  double time_s = 0;
  int clock_mhz = 0;
};

/// Measured units of one rank in an iteration.
struct MeasuredRank {
  int rank = 0;                       ///< of the job
  int pipeline_rank = 0;              ///< whose ops it ran: ranks of data and tensor parallelism share one
  std::vector<MeasuredOp> ops;        ///< in the order of execution
  std::vector<MeasuredPower> power;   ///< rising; empty when the GPU has no counter
  std::vector<MeasuredClock> clocks;  ///< rising; some 20 a second
};

/// What puts the times of ranks on one axis.
enum class TimeAxis : unsigned char {
  one_clock,       ///< that of the one machine they ran on
  iteration_begin  ///< several machines: on each, the iteration is taken to begin at 0
};

/// One iteration as the ranks of a job recorded it.
struct MeasuredTimeline {
  int iteration = 0;
  bool simulated = false;  ///< on simulated GPUs
  TimeAxis axis = TimeAxis::one_clock;
  double time_s = 0;  ///< from the begin of its first unit to the end of its last: a rank may begin it before, and wait
  std::vector<MeasuredRank> ranks;
};

/// All iterations that every recorded rank has run completely, in their order. The iteration begins where the first
/// rank of each machine begins it. Where a job was resumed and has done an iteration twice, the later one is taken.
/// Throws InputError when there is no such iteration, a unit belongs to no op of `dag`, or ranks ran their ops in
/// another order.
[[nodiscard]] std::vector<MeasuredTimeline> measured_timelines(std::span<const profile::Recording> recordings,
                                                               const schedule::PipelineDag& dag);

/// Iterations in which memory is allocated and clocks settle.
inline constexpr int kWarmUpIterations = 2;

/// All units of one kind of a stage against their expectation. Times are means.
struct UnitComparison {
  int stage = 0;
  OpKind kind = OpKind::forward;
  long long units = 0;
  long long at_other_clocks = 0;  ///< of these, other than expected
  double expected_s = 0;
  double measured_s = 0;
  double deviation_s = 0;  ///< of single units' differences from their expectation

  [[nodiscard]] double difference_pct() const { return 100 * (measured_s / expected_s - 1); }
};

/// Iterations against the expected one.
struct IterationComparison {
  int iterations = 0;
  double measured_s = 0;
  std::vector<UnitComparison> units;  ///< by stage and kind
};

/// Compares all timelines but those of the first kWarmUpIterations iterations, or all when there are no others.
/// `expected_s` and `clocks_mhz` by op of `dag`. `timelines` are not empty.
[[nodiscard]] IterationComparison compare_with(std::span<const MeasuredTimeline> timelines,
                                               const schedule::PipelineDag& dag, std::span<const double> expected_s,
                                               std::span<const int> clocks_mhz);

}  // namespace lowgear::report

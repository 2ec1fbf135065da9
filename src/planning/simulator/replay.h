#pragma once

#include <span>
#include <vector>

#include "base/core/units.h"
#include "planning/plan/plan.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"

namespace lowgear::simulator {

/// Time and energy of one op in a replay.
struct OpCost {
  double time_s = 0;
  double energy_j = 0;
};

/// An iteration of its own among others.
struct IterationWork {
  std::span<const double> work;            ///< by op: its time and energy by those of the profile; empty: 1
  std::span<const int> clocks_before_mhz;  ///< by rank: in effect as it begins; empty: what it leaves itself
};

/// Costs of every op at the given clocks and settings (by op), as measured, times its work. Throws InputError when the
/// profile lacks one of them. A clock above what the op was profiled at is an error too: clocks are never guessed.
[[nodiscard]] std::vector<OpCost> costs_at_clocks(const schedule::PipelineDag& dag,
                                                  const profile::StageProfile& profile,
                                                  const plan::OpChoicesView& choices,
                                                  const IterationWork& iteration = {});

/// Costs when clock changes take effect late. The GPU of a rank has a clock in effect; an op that asks for another one
/// starts a change, which takes effect after the GPU has computed for `latency_s` more (waiting in between does not
/// count). While a change is on its way
///   - ops run at the clock in effect, whatever they ask for; the op during which it takes effect does the rest of its
///     work at its own clock: with t, e its time and energy at the clock in effect, t', e' at its own, and lag L <= t
///     left at its begin, it takes L + (1 - L/t) t' and (L/t) e + (1 - L/t) e';
///   - an op that asks for yet another clock redirects the change but does not start its lag anew;
///   - an op that asks for the clock in effect calls the change off.
/// Iterations follow each other: the first op of a rank finds the state that its last one left, unless
/// `iteration.clocks_before_mhz` says which clock it finds. Where a lag spans so many ops that iterations differ, the
/// costs are those of the first that ends as it began; where none of 16 does, the largest time and the largest energy
/// of each op in the next 16, so that no iteration takes longer. An op's
/// cost at a clock of another op that it was not measured at is that of its nearest measured clock below (so that its
/// time is not made shorter than it is), or of its lowest where it has none below. A setting takes effect at once; at a
/// clock at which the op was not measured with its setting, it runs with the fastest one. With latency 0 it is
/// `costs_at_clocks`. Throws what that throws, and InputError when the latency is negative or not finite.
[[nodiscard]] std::vector<OpCost> costs_with_switch_latency(const schedule::PipelineDag& dag,
                                                            const profile::StageProfile& profile,
                                                            const plan::OpChoicesView& choices, double latency_s,
                                                            const IterationWork& iteration = {});

/// Largest factor by which a stage may be slowed.
inline constexpr double kMaxSlowdownFactor = 1e6;

/// A virtual stage that runs slower than profiled (thermal throttling, a slow node): times are multiplied by `factor`,
/// which is above 0 and at most kMaxSlowdownFactor, and power stays what it was, so energies are multiplied too.
/// Several slowdowns of one stage multiply.
struct StageSlowdown {
  int stage = 0;
  double factor = 1;
};

/// By op: by how much its stage is slowed, as `IterationWork::work` has it, so that the lag of a clock is not slowed.
/// Empty where none is. Throws InputError when a stage or a factor is out of range.
[[nodiscard]] std::vector<double> slowed_work(const schedule::PipelineDag& dag,
                                              std::span<const StageSlowdown> slowdowns);

/// The precedence of a PipelineDag laid out for finding start times again and again: each evaluation reads every
/// dependency once, in memory order, and allocates nothing. Immutable, so that threads may share one.
class TimingGraph {
 public:
  explicit TimingGraph(const schedule::PipelineDag& dag);

  [[nodiscard]] std::size_t op_count() const { return ops_.size(); }

  /// Earliest start of every op when each starts as soon as all it depends on have finished. Writes `start` and returns
  /// the makespan, the latest end. `duration` and `start` by op of the graph, both of size op_count() and not the same
  /// memory; durations are not negative. Seconds in doubles or picoseconds in integers, which the sum must not
  /// overflow (base/core/units.h).
  double start_times(std::span<const double> duration_s, std::span<double> start_s) const;
  TimePs start_times(std::span<const TimePs> duration_ps, std::span<TimePs> start_ps) const;

 private:
  template <typename Time>
  Time evaluate(std::span<const Time> duration, std::span<Time> start) const;

  std::vector<int> ops_;                ///< ops in topological order
  std::vector<int> predecessor_begin_;  ///< by position in ops_: where its predecessors begin; one more at the end
  std::vector<int> predecessors_;       ///< op indices
};

/// One iteration, replayed: start and duration of every op, and the iteration's time and energy.
struct Timeline {
  std::vector<double> start_s;     ///< by op of the graph
  std::vector<double> duration_s;  ///< by op of the graph
  std::vector<double> energy_j;    ///< by op of the graph
  double time_s = 0;               ///< iteration time: the last op's end
  double energy_j_total = 0;       ///< ops plus blocking energy of all ranks, one GPU a rank
  std::vector<double> busy_s;      ///< by rank
  std::vector<double> blocked_s;   ///< by rank: iteration time less busy time
};

/// Energy model: every op at its cost, and each rank draws its blocking power whenever it runs none, over
/// the whole iteration. Starts every op as soon as what it depends on has finished. `costs` by op; `blocking_power_w`
/// by rank.
[[nodiscard]] Timeline replay(const schedule::PipelineDag& dag, std::span<const OpCost> costs,
                              std::span<const double> blocking_power_w);

/// The same on a TimingGraph of `dag` made once, for many replays of one pipeline.
[[nodiscard]] Timeline replay(const schedule::PipelineDag& dag, const TimingGraph& graph, std::span<const OpCost> costs,
                              std::span<const double> blocking_power_w);

/// The ops of a replay with the clocks and settings that they ran with, as a Plan holds them: rank by rank, in the
/// order of execution.
[[nodiscard]] std::vector<std::vector<plan::PlannedOp>> planned_ops(const schedule::PipelineDag& dag,
                                                                    const Timeline& timeline,
                                                                    const plan::OpChoicesView& choices);

}  // namespace lowgear::simulator

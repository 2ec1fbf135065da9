#pragma once

#include <span>
#include <vector>

#include "profile/stage_profile.h"
#include "schedule/dag.h"
#include "simulator/timing_graph.h"

namespace lowgear {

/// What one op takes in a replay.
struct OpCost {
  double time_s = 0;
  double energy_j = 0;
};

/// One iteration, replayed: when every op runs, and what it all takes.
struct Timeline {
  std::vector<double> start_s;     ///< by op of the graph
  std::vector<double> duration_s;  ///< by op of the graph
  std::vector<double> energy_j;    ///< by op of the graph
  double time_s = 0;               ///< iteration time: the last op's end
  double energy_j_total = 0;       ///< ops plus blocking energy of all ranks, one GPU a rank
  std::vector<double> busy_s;      ///< by rank
  std::vector<double> blocked_s;   ///< by rank: iteration time less busy time
};

/// Energy model (DESIGN §3): every op at its cost, and each rank draws its blocking power whenever it runs none, over
/// the whole iteration. Starts every op as soon as what it depends on has finished. `costs` by op; `blocking_power_w`
/// by rank.
[[nodiscard]] Timeline replay(const PipelineDag& dag, std::span<const OpCost> costs,
                              std::span<const double> blocking_power_w);

/// The same on a TimingGraph of `dag` made once, for many replays of one pipeline.
[[nodiscard]] Timeline replay(const PipelineDag& dag, const TimingGraph& graph, std::span<const OpCost> costs,
                              std::span<const double> blocking_power_w);

/// Costs of every op at the given clocks (by op), as measured. Throws InputError when the profile lacks a clock.
/// A clock above what the op was profiled at is an error too: clocks are never guessed.
[[nodiscard]] std::vector<OpCost> costs_at_clocks(const PipelineDag& dag, const StageProfile& profile,
                                                  std::span<const int> clocks_mhz);

/// How late a clock change takes effect: for `latency_s` after an op has begun its GPU still runs at the clock of the
/// op before (on the first op: of the rank's last, as iterations follow each other). Work done and energy drawn in that
/// time are those of the old clock; the rest of the op runs at its own.
/// Returns the costs with that lag. With latency 0 it is `costs_at_clocks`.
[[nodiscard]] std::vector<OpCost> costs_with_switch_latency(const PipelineDag& dag, const StageProfile& profile,
                                                            std::span<const int> clocks_mhz, double latency_s);

/// Largest factor by which a stage may be slowed.
inline constexpr double kMaxSlowdownFactor = 1e6;

/// A virtual stage that runs slower than profiled (thermal throttling, a slow node): times are multiplied by `factor`,
/// which is above 0 and at most kMaxSlowdownFactor, and power stays what it was, so energies are multiplied too.
/// Several slowdowns of one stage multiply.
struct StageSlowdown {
  int stage = 0;
  double factor = 1;
};

/// Applies slowdowns to costs in place. Throws InputError when a stage or a factor is out of range.
void apply_slowdowns(const PipelineDag& dag, std::span<const StageSlowdown> slowdowns, std::span<OpCost> costs);

}  // namespace lowgear

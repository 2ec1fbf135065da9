#pragma once

#include <span>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"

namespace lowgear::simulator {

/// What one op takes in a replay.
struct OpCost {
  double time_s = 0;
  double energy_j = 0;
};

/// Costs of every op at the given clocks and settings (by op), as measured. Throws InputError when the profile lacks
/// one of them. A clock above what the op was profiled at is an error too: clocks are never guessed.
[[nodiscard]] std::vector<OpCost> costs_at_clocks(const schedule::PipelineDag& dag,
                                                  const profile::StageProfile& profile,
                                                  const plan::OpChoicesView& choices);

/// Costs when clock changes take effect late. The GPU of a rank has a clock in effect; an op that asks for another one
/// starts a change, which takes effect after the GPU has computed for `latency_s` more (waiting in between does not
/// count). While a change is on its way
///   - ops run at the clock in effect, whatever they ask for; the op during which it takes effect does the rest of its
///     work at its own clock: with t, e its time and energy at the clock in effect, t', e' at its own, and lag L <= t
///     left at its begin, it takes L + (1 - L/t) t' and (L/t) e + (1 - L/t) e';
///   - an op that asks for yet another clock redirects the change but does not start its lag anew;
///   - an op that asks for the clock in effect calls the change off.
/// Iterations follow each other: the first op of a rank finds the state that its last one left. Where a lag spans so
/// many ops that iterations differ, the costs are those of the first that ends as it began, or of the 16th. An op's
/// cost at a clock of another op that it was not measured at is that of its nearest measured clock below (so that its
/// time is not made shorter than it is), or of its lowest where it has none below. A setting takes effect at once; at a
/// clock at which the op was not measured with its setting, it runs with the fastest one. With latency 0 it is
/// `costs_at_clocks`. Throws what that throws, and InputError when the latency is negative or not finite.
[[nodiscard]] std::vector<OpCost> costs_with_switch_latency(const schedule::PipelineDag& dag,
                                                            const profile::StageProfile& profile,
                                                            const plan::OpChoicesView& choices, double latency_s);

/// Largest factor by which a stage may be slowed.
inline constexpr double kMaxSlowdownFactor = 1e6;

/// A virtual stage that runs slower than profiled (thermal throttling, a slow node): times are multiplied by `factor`,
/// which is above 0 and at most kMaxSlowdownFactor, and power stays what it was, so energies are multiplied too.
/// Several slowdowns of one stage multiply.
struct StageSlowdown {
  int stage = 0;
  double factor = 1;
};

/// Applies slowdowns to costs in place. A lag that is in them is slowed too. Throws InputError when a stage or a factor
/// is out of range.
void apply_slowdowns(const schedule::PipelineDag& dag, std::span<const StageSlowdown> slowdowns,
                     std::span<OpCost> costs);

}  // namespace lowgear::simulator

#pragma once

#include <span>
#include <vector>

#include "planning/plan/plan.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::api {

/// Highest power of one GPU that is accepted.
inline constexpr double kMaxGpuPowerW = 1e5;
/// Shorter than this no level of power counts: times of events that are one and the same differ by rounding.
inline constexpr double kShortestPowerLevelS = 1e-6;

/// Power from a time on, until the next step.
struct PowerStep {
  double start_s = 0;
  double power_w = 0;
};

/// Power over one iteration. The first step begins at 0.
struct PowerTrace {
  std::vector<PowerStep> steps;
  double end_s = 0;
};

/// `count` GPUs that all draw the same.
struct PowerShare {
  const PowerTrace* trace = nullptr;
  double count = 1;
};

/// The sum, exact to a microwatt: a sweep over the steps of all. Steps less than kShortestPowerLevelS apart become one.
/// The traces must have the same end.
[[nodiscard]] PowerTrace sum(std::span<const PowerShare> shares);

[[nodiscard]] double peak_w(const PowerTrace& trace);
/// Mean over [from_s, to_s], which is within the trace and not empty.
[[nodiscard]] double mean_w(const PowerTrace& trace, double from_s, double to_s);
[[nodiscard]] double mean_w(const PowerTrace& trace);

/// When all ranks of a pipeline have begun, and when the first of them is done. Before and after is where it fills and
/// drains. Where the first rank is done before the last begins there is no steady phase, and both are 0.
struct SteadyPhase {
  double begin_s = 0;
  double end_s = 0;
};

[[nodiscard]] SteadyPhase steady_phase(const plan::Plan& plan);

/// Power of one GPU of each rank over the plan's iteration, *planned*: an op's profiled energy over its profiled time
/// while it runs, blocking power (by rank) otherwise. From the plan's end to `until_s`, when that is later, it waits.
/// Throws InputError naming rank and place when ops overlap, a time is out of range, the profile lacks a clock, a power
/// is above kMaxGpuPowerW or there is not one blocking power for each rank.
[[nodiscard]] std::vector<PowerTrace> rank_power(const plan::Plan& plan, const profile::StageProfile& profile,
                                                 std::span<const double> blocking_power_w, double until_s = 0);

/// GPUs of a node that run one rank: data-parallel copies (that begin iterations together) and tensor-parallel shards.
struct GpuGroup {
  int rank = 0;
  int node = 0;
  int gpus = 1;
};

struct ScopePower {
  double peak_w = 0;
  double mean_w = 0;
};

struct NodePower {
  int node = 0;
  ScopePower power;
};

struct PlanPower {
  std::vector<ScopePower> gpus;  ///< by rank, of one GPU
  std::vector<NodePower> nodes;  ///< by rising node number
  ScopePower job;
  /// Power swing between the phases of the pipeline: largest less smallest of the job's mean power while it fills,
  /// while it is steady and while it drains. A grid connection or a generator sees this once per iteration.
  double phase_swing_w = 0;
};

/// `ranks` as `rank_power` returns them; of several plans, one after the other (and `GpuGroup::rank` counts through
/// them), all until the same end. Throws InputError when a group names a rank that is not there or has no GPU, when
/// there are no groups, or GPUs of more than 10^6.
[[nodiscard]] PlanPower plan_power(std::span<const PowerTrace> ranks, std::span<const GpuGroup> gpus,
                                   const SteadyPhase& steady);

}  // namespace lowgear::api

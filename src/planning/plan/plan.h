#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

namespace lowgear::plan {

/// Longest name of a GPU's model: what NVML has room for (NVML_DEVICE_NAME_V2_BUFFER_SIZE).
inline constexpr std::size_t kMaxGpuNameBytes = 96;

/// Longest `clock_lead_s`: the longest switch latency that a job may have.
inline constexpr double kMaxClockLeadS = 10;

/// One computation with the SM clock it is to run at, and when it is planned to run.
struct PlannedOp {
  int stage = 0;  ///< virtual stage
  OpKind kind = OpKind::forward;
  int microbatch = 0;
  int clock_mhz = 0;
  double start_s = 0;
  double duration_s = 0;
  std::string setting = {};  ///< what else it is to run with; empty: nothing else is set
};

/// The clock and setting of each op of a graph, as replays take them. Refers to the vectors that it is made of.
struct OpChoicesView {
  // Implicit: whoever knows clocks only says nothing of settings.
  OpChoicesView(std::span<const int> clocks) : clocks_mhz(clocks) {}     // NOLINT(google-explicit-constructor)
  OpChoicesView(const std::vector<int>& clocks) : clocks_mhz(clocks) {}  // NOLINT(google-explicit-constructor)
  OpChoicesView(std::span<const int> clocks, std::span<const std::string> settings_by_op)
      : clocks_mhz(clocks), settings(settings_by_op) {}

  /// The setting of op `op`; empty where only its clock is chosen.
  [[nodiscard]] std::string_view setting(std::size_t op) const {
    return settings.empty() ? std::string_view() : std::string_view(settings[op]);
  }

  std::span<const int> clocks_mhz;        ///< by op
  std::span<const std::string> settings;  ///< by op; empty: every op at its clock's fastest setting
};

/// The clock and setting of each op of a graph, in vectors of its own.
struct OpChoices {
  std::vector<int> clocks_mhz;        ///< by op
  std::vector<std::string> settings;  ///< by op; empty: every op at its clock's fastest setting

  operator OpChoicesView() const { return {clocks_mhz, settings}; }  // NOLINT(google-explicit-constructor)
};

/// (energy - bound) / bound in per cent, 0 where they differ by rounding alone; empty without a bound.
[[nodiscard]] std::optional<double> gap_pct(double energy_j, std::optional<double> lower_bound_j);

/// Clocks for one iteration of a pipeline, per rank (GPU position in the pipeline) in the order of execution, with the
/// figures it was planned with. All figures are *planned*, energies are for one GPU per rank.
struct Plan {
  std::string policy;      ///< which policy made it: `lowgear`, `envpipe`, ...
  std::string schedule;    ///< name of the schedule
  std::string gpu_name;    ///< model of GPU that it was made for, as the driver names it; empty: not stated
  bool simulated = false;  ///< its profile is of simulated GPUs
  int microbatches = 0;
  double deadline_s = 0;
  double time_s = 0;
  double energy_j = 0;
  std::optional<double> lower_bound_j;  ///< no plan of this time can use less; absent when not computed
  /// How long before a unit is expected to begin its clock is to be asked for; 0: when it begins. A plan that was made
  /// as if clocks changed at once names the latency of the GPUs here.
  double clock_lead_s = 0;
  int switches = 0;  ///< clock changes per iteration, all ranks, the step to the next iteration included
  std::vector<std::vector<PlannedOp>> ranks;

  [[nodiscard]] std::optional<double> gap_pct() const;
};

/// Clock changes of one iteration repeated for ever: between neighbouring ops of a rank, and from its last to its
/// first.
[[nodiscard]] int count_switches(const std::vector<std::vector<PlannedOp>>& ranks);

/// Whether both plans run the same ops in the same order, each at the same clock and setting.
[[nodiscard]] bool has_same_clocks(const Plan& one, const Plan& other);

/// The clock of every op of `dag`, in its order. Throws InputError when the plan's ops are not the graph's ops in the
/// graph's order, naming the first difference.
[[nodiscard]] std::vector<int> clocks_for(const Plan& plan, const schedule::PipelineDag& dag);

/// Clocks and settings of every op of `dag`; no settings if the plan names none. Throws as `clocks_for` does.
[[nodiscard]] OpChoices choices_for(const Plan& plan, const schedule::PipelineDag& dag);

/// Whether any op has a setting: a program that sets clocks alone does not run such a plan as it was planned.
[[nodiscard]] bool has_settings(const Plan& plan);

/// Throws InputError if the plan has settings, because `who` ("the agent") sets clocks alone.
void refuse_settings(const Plan& plan, std::string_view who);

/// The power limit that the setting `pl:300` names, in W from 1 to 10000; none for every other setting. The only
/// setting that Lowgear itself gives a meaning: its agent sets the limit with the clock of the op.
[[nodiscard]] std::optional<int> power_limit_w(std::string_view setting);

/// Throws InputError if the plan has settings that are no power limits, which `who` cannot set.
void refuse_settings_but_power_limits(const Plan& plan, std::string_view who);

/// Every computation of a schedule at one clock, in its order: how a clock is held to measure what units take at it.
/// Times and energy are not known and 0. `policy` says what it is for.
[[nodiscard]] Plan uniform_plan(const schedule::Schedule& schedule, int clock_mhz, std::string policy);

/// The subset of a row of plans that is kept: a number of them, or every n-th.
struct PlanSampling {
  std::optional<int> count = {};  ///< at least 1; evenly over all of them
  int every = 1;                  ///< at least 1; counts where `count` is absent, as lowtime's sample.py does
};

/// Reads `all`, `20` (a number of plans) or `every:50`. Throws InputError that lists these forms.
[[nodiscard]] PlanSampling read_plan_sampling(std::string_view text);

/// Places of the plans to keep among `total`, in rising order. The first and the last are among them, but for a count
/// of 1, which keeps the last: of plans in the order of lowtime's numbers, the fastest.
[[nodiscard]] std::vector<std::size_t> sampled_places(std::size_t total, const PlanSampling& sampling);

}  // namespace lowgear::plan

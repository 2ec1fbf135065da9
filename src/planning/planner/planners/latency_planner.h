#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/core/units.h"
#include "planning/plan/plan.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {

enum class PlanGranularity {
  per_op,          ///< every computation has its own clock
  per_stage_kind,  ///< one clock for all computations of a (stage, kind): few switches
};

/// Clocks with their replayed time and energy.
struct ReplayedClocks {
  std::vector<int> clocks_mhz;  ///< by op
  simulator::Timeline timeline;
};

/// Chooses clocks for GPUs on which a clock change takes effect late (`costs_with_switch_latency`). A plan made as if
/// changes were immediate is then late and wasteful: ops run at clocks that were meant for others. A plan that is late
/// is tried again with its rises asked for in advance. So that a change is only planned where it pays, plans with fewer
/// and fewer changes are replayed with the latency and compared; in the best, changes are then taken out, and single
/// ops slowed down, one by one as long as that costs no energy (some changes never take effect). Where all ops of a
/// (stage, kind) are to share a clock, they keep to that: their clock is changed for all of them, and a rise cannot be
/// asked for in advance.
class LatencyPlanner {
 public:
  /// Clocks for a deadline, made without regard to latency and as the granularity says; none when the way of planning
  /// knows none.
  using Proposal = std::function<std::optional<std::vector<int>>(TimePs deadline_ps)>;

  /// Arguments must outlive the planner. `blocking_power_w` by rank; `work` may be null.
  LatencyPlanner(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                 std::span<const double> blocking_power_w, double latency_s,
                 PlanGranularity granularity = PlanGranularity::per_op, WorkReport* work = nullptr);

  /// The best plan found whose time, latency included, is at most `deadline_ps`; none when no proposal keeps it.
  /// Each proposal is asked for deadlines in [`fastest_ps`, `deadline_ps`], tighter ones where latency makes it late.
  [[nodiscard]] std::optional<ReplayedClocks> plan(std::span<const Proposal> proposals, TimePs fastest_ps,
                                                   TimePs deadline_ps) const;

  [[nodiscard]] ReplayedClocks replayed(std::vector<int> clocks_mhz) const;

  [[nodiscard]] PlanGranularity granularity() const { return granularity_; }

  /// As the function of this name.
  [[nodiscard]] std::vector<int> rises_in_advance(const std::vector<int>& clocks_mhz) const;

  /// Whether these ops were all measured at this clock.
  [[nodiscard]] bool have_clock(std::span<const int> ops, int clock_mhz) const;

 private:
  [[nodiscard]] std::optional<ReplayedClocks> slowest_in_time(const Proposal& proposal, TimePs fastest_ps,
                                                              TimePs deadline_ps) const;
  /// The best plan so far, and what may still be spent on making it better.
  struct Search {
    ReplayedClocks best;
    TimePs deadline_ps = 0;
    std::size_t trials = 0;  ///< replays that are left
  };
  [[nodiscard]] std::optional<ReplayedClocks> with_clock(const Search& search, std::span<const int> ops,
                                                         int clock_mhz) const;
  [[nodiscard]] bool take_clock(Search& search, std::span<const int> ops, int clock_mhz) const;
  void improve_by_op(Search& search) const;
  void improve_by_cell(Search& search) const;
  void take_out_changes(Search& search) const;
  void slow_down(Search& search, std::span<const int> ops) const;
  void report_visits(std::size_t ops) const;

  const schedule::PipelineDag* dag_;
  const profile::StageProfile* profile_;
  std::span<const double> blocking_power_w_;
  double latency_s_;
  PlanGranularity granularity_;
  WorkReport* work_;
  simulator::TimingGraph graph_;
};

/// The same clocks, but where one rises, ops that run within the latency before ask for it already: no op then takes
/// longer than its own clock lets it, so that a plan that would be in time without latency is. Only of ops that were
/// measured at the higher clock can it be asked. Ranks are taken to repeat their ops for ever: the first op's clock is
/// asked for at the end of the iteration. `work` by op: its time in that of the profile's rows; empty: 1.
[[nodiscard]] std::vector<int> rises_in_advance(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                                double latency_s, std::span<const int> clocks_mhz,
                                                std::span<const double> work);

/// Gives ops for which the clock makes no difference (an input gradient that takes no time) the clock of the op before
/// on their rank, so that no change is requested for them: wherever the profile says that an op takes no longer and no
/// more energy at that clock. Where all ops of a (stage, kind) share a clock, they take the one from before the first
/// of them. An op that gets another clock gets a setting of that clock. `blocking_power_w` by rank; `choices` have to
/// be of the profile.
[[nodiscard]] plan::OpChoices without_needless_changes(const schedule::PipelineDag& dag,
                                                       const profile::StageProfile& profile,
                                                       std::span<const double> blocking_power_w,
                                                       PlanGranularity granularity, plan::OpChoices choices);

}  // namespace lowgear::planner

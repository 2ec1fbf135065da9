#include "rivals/policies/envpipe/envpipe_offline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "planning/planner/frontier/work_report.h"
#include "rivals/policies/envpipe/critical_path.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"

namespace lowgear::policies {
namespace {

/// The clocks being chosen: each op's place in its list of measurements, highest clock first.
class ClockState {
 public:
  ClockState(const planner::PlanningProblem& problem, double unit_s) : problem_(&problem), unit_s_(unit_s) {
    const std::vector<bool> envelope = outer_envelope(*problem.dag);
    for (std::size_t op = 0; op < envelope.size(); ++op) {
      index_.push_back(envelope[op] ? 0 : slowest_option(op));
      units_.push_back(whole_units(measurements(op)[index_[op]].time_s, unit_s));
    }
  }

  [[nodiscard]] std::span<const int> units() const { return units_; }
  [[nodiscard]] int clock_mhz(std::size_t op) const { return measurements(op)[index_[op]].clock_mhz; }
  [[nodiscard]] bool can_rise(std::size_t op) const { return index_[op] > 0; }
  void raise(std::size_t op) {
    --index_[op];
    units_[op] = whole_units(measurements(op)[index_[op]].time_s, unit_s_);
  }

 private:
  [[nodiscard]] std::span<const profile::Measurement> measurements(std::size_t op) const {
    const schedule::ComputeOp& compute = problem_->dag->ops[op];
    (void)problem_->profile->at_max_clock(compute.stage, compute.kind);  // names what is missing
    return problem_->profile->measurements(compute.stage, compute.kind);
  }
  [[nodiscard]] std::size_t slowest_option(std::size_t op) const {
    const auto all = measurements(op);
    const int clock_mhz = quantised_options(all, unit_s_).back().clock_mhz;
    const auto place = std::ranges::find(all, clock_mhz, &profile::Measurement::clock_mhz);
    return static_cast<std::size_t>(place - all.begin());
  }

  const planner::PlanningProblem* problem_;
  double unit_s_;
  std::vector<std::size_t> index_;  ///< by op
  std::vector<int> units_;          ///< by op: time of its clock
};

/// Raises the path's ops of lowest clock by one; returns whether there was one to raise.
bool raise_lowest(std::span<const int> path, ClockState& state) {
  int lowest_mhz = std::numeric_limits<int>::max();
  for (const int op : path) {
    const auto index = static_cast<std::size_t>(op);
    if (state.can_rise(index)) lowest_mhz = std::min(lowest_mhz, state.clock_mhz(index));
  }
  bool raised = false;
  for (const int op : path) {
    const auto index = static_cast<std::size_t>(op);
    if (!state.can_rise(index) || state.clock_mhz(index) != lowest_mhz) continue;
    state.raise(index);
    raised = true;
  }
  return raised;
}

}  // namespace

planner::PolicyPlan EnvPipeOfflinePolicy::plan(const planner::PlanningProblem& problem,
                                               std::optional<double> deadline_s) const {
  ClockState state(problem, unit_s_);
  CriticalPathFinder finder(*problem.dag);
  planner::WorkReport work(problem.progress);
  work.begin("planning as EnvPipe, offline", -1);
  int reconfigurations = 0;
  for (; raise_lowest(finder.find(state.units()), state); ++reconfigurations) work.visited(problem.dag->ops.size());

  planner::PolicyPlan plan;
  for (std::size_t op = 0; op < problem.dag->ops.size(); ++op) plan.clocks_mhz.push_back(state.clock_mhz(op));
  plan.note = fmt::format("{} reconfigurations{}", reconfigurations, deadline_s ? "; ignores the deadline" : "");
  return plan;
}

}  // namespace lowgear::policies

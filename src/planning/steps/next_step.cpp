#include "planning/steps/next_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planning/profile/switch_latency.h"
#include "planning/schedule/communication.h"

namespace lowgear::steps {

namespace {

/// An agent cannot expect the begin of units whose lengths change from step to step, so clocks of single units are
/// requested as they begin, and take effect that much later. One clock a replica changes between steps.
double late_by_s(ClocksPer clocks_per) { return clocks_per == ClocksPer::unit ? profile::kAssumedSwitchLatencyS : 0; }

}  // namespace

NextStepPlanner::NextStepPlanner(StepPipeline pipeline)
    : pipeline_(std::move(pipeline)),
      dag_(build_dag(without_communication(pipeline_.schedule))),
      planner_(dag_, pipeline_.profile, pipeline_.blocking_power_w,
               {.clocks_per = pipeline_.clocks_per,
                .margin = pipeline_.work.error(),
                .late_by_s = late_by_s(pipeline_.clocks_per)}) {
  (void)work_of(std::vector<Amounts>(static_cast<std::size_t>(dag_.microbatches)), 0);
}

std::vector<double> NextStepPlanner::work_of(std::span<const Amounts> amounts, int replica) const {
  std::vector<double> times_s;
  const auto first = static_cast<std::size_t>(replica) * static_cast<std::size_t>(dag_.microbatches);
  for (const schedule::ComputeOp& op : dag_.ops) {
    const Amounts& of_microbatch = amounts[first + static_cast<std::size_t>(op.microbatch)];
    times_s.push_back(pipeline_.work.time_s(replica, op.stage, op.kind, of_microbatch));
  }
  return planner_.work(times_s);
}

NextStep NextStepPlanner::plan(std::span<const Amounts> amounts, int replica) const {
  NextStep step;
  step.fault = pipeline_.work.beyond_fit(amounts, dag_.microbatches);
  if (!step.fault.empty()) return step;
  const auto replicas = static_cast<int>(amounts.size()) / dag_.microbatches;
  std::vector<double> own;
  for (int r = 0; r < replicas; ++r) {
    std::vector<double> work = work_of(amounts, r);
    const double time_s = planner_.full_time_s(work);
    if (!(std::ranges::min(work) > 0 && time_s <= kMaxTimeS)) {
      step.fault =
          fmt::format("replica {} is predicted to take {:.3g} s, with units of no time or too long", r, time_s);
      step.time_s = 0;
      return step;
    }
    step.time_s = std::max(step.time_s, time_s);
    if (r != replica) continue;
    step.replica_full_time_s = time_s;
    own = std::move(work);
  }
  ReplicaPlan plan = planner_.plan(own, step.time_s, {});
  step.clocks_mhz = std::move(plan.clocks_mhz);
  step.replica_time_s = plan.figures.time_s;
  return step;
}

int NextStepPlanner::full_clock_mhz(int rank) const {
  const std::vector<int>& clocks_mhz = planner_.full_clocks_mhz();
  const auto at = [&](int r) { return clocks_mhz.begin() + dag_.rank_begin[static_cast<std::size_t>(r)]; };
  return *std::max_element(at(rank), at(rank + 1));
}

}  // namespace lowgear::steps

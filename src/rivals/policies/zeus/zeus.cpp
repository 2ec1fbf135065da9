#include "rivals/policies/zeus/zeus.h"

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "rivals/policies/zeus/profiled_clocks.h"

namespace lowgear::policies {
namespace {

std::vector<int> clocks_by_op(const schedule::PipelineDag& dag, std::span<const int> stage_clock_mhz) {
  std::vector<int> clocks;
  clocks.reserve(dag.ops.size());
  for (const schedule::ComputeOp& op : dag.ops) clocks.push_back(stage_clock_mhz[static_cast<std::size_t>(op.stage)]);
  return clocks;
}

std::vector<std::vector<int>> clocks_of_all_stages(const planner::PlanningProblem& problem) {
  std::vector<std::vector<int>> clocks;
  clocks.reserve(static_cast<std::size_t>(problem.dag->stages));
  for (int stage = 0; stage < problem.dag->stages; ++stage) clocks.push_back(stage_clocks_mhz(problem, stage));
  return clocks;
}

double forward_time_s(const planner::PlanningProblem& problem, int stage, int clock_mhz) {
  return problem.profile->at_clock(stage, OpKind::forward, clock_mhz).time_s;
}

int heaviest_stage(const planner::PlanningProblem& problem, const std::vector<std::vector<int>>& clocks_mhz) {
  int heaviest = 0;
  double longest_s = 0;
  for (int stage = 0; stage < problem.dag->stages; ++stage) {
    const double time_s = forward_time_s(problem, stage, clocks_mhz[static_cast<std::size_t>(stage)].front());
    if (time_s > longest_s) {
      longest_s = time_s;
      heaviest = stage;
    }
  }
  return heaviest;
}

/// Of the stage's clocks up to `limit_mhz`, the one whose forward time is nearest to `time_s`; the stage's lowest clock
/// when all are above the limit.
int balanced_clock_mhz(const planner::PlanningProblem& problem, int stage, std::span<const int> clocks_mhz,
                       int limit_mhz, double time_s) {
  int best = clocks_mhz.back();
  for (const int clock : clocks_mhz) {
    if (clock > limit_mhz) continue;
    const double distance_s = std::abs(forward_time_s(problem, stage, clock) - time_s);
    if (distance_s < std::abs(forward_time_s(problem, stage, best) - time_s)) best = clock;
  }
  return best;
}

}  // namespace

planner::PolicyPlan ZeusGlobalPolicy::plan(const planner::PlanningProblem& problem,
                                           std::optional<double> deadline_s) const {
  CheapestInTime choice(problem, deadline_s);
  for (const int clock : common_clocks_mhz(problem)) choice.consider(std::vector<int>(problem.dag->ops.size(), clock));
  planner::PolicyPlan plan;
  plan.clocks_mhz = choice.clocks_mhz(name());
  plan.note = "one clock instead of one power limit";
  return plan;
}

planner::PolicyPlan ZeusPerStagePolicy::plan(const planner::PlanningProblem& problem,
                                             std::optional<double> deadline_s) const {
  const auto clocks = clocks_of_all_stages(problem);
  const int heaviest = heaviest_stage(problem, clocks);
  CheapestInTime choice(problem, deadline_s);
  std::vector<int> stage_clock_mhz(clocks.size());
  for (const int leading_clock : clocks[static_cast<std::size_t>(heaviest)]) {
    const double time_s = forward_time_s(problem, heaviest, leading_clock);
    for (int stage = 0; stage < problem.dag->stages; ++stage) {
      const auto index = static_cast<std::size_t>(stage);
      stage_clock_mhz[index] =
          stage == heaviest ? leading_clock : balanced_clock_mhz(problem, stage, clocks[index], leading_clock, time_s);
    }
    choice.consider(clocks_by_op(*problem.dag, stage_clock_mhz));
  }
  planner::PolicyPlan plan;
  plan.clocks_mhz = choice.clocks_mhz(name());
  plan.note = "clocks instead of power limits";
  return plan;
}

}  // namespace lowgear::policies

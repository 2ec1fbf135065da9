#include "planning/steps/step_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "planning/planner/linear_program.h"
#include "planning/profile/options.h"
#include "planning/steps/sample_steps.h"

namespace lowgear::steps {
namespace {

/// Least effective energy of a replica, by Clp from the profile's rows.
double least_by_linear_program(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                               const std::vector<double>& work, const std::vector<double>& busy, double deadline_s) {
  std::vector<std::vector<planner::CostCorner>> corners;
  for (std::size_t op = 0; op < work.size(); ++op) {
    const auto options = profile::pareto_options(profile.measurements(dag.ops[op].stage, dag.ops[op].kind), kBlockingW);
    std::vector<planner::CostCorner>& of_op = corners.emplace_back();
    for (const std::size_t i : profile::lower_convex_hull(options)) {
      of_op.push_back({work[op] * options[i].time_s, busy[op] * work[op] * options[i].effective_energy_j});
    }
  }
  std::vector<std::pair<int, int>> edges;
  for (const schedule::DagEdge& edge : dag.edges) edges.emplace_back(edge.from, edge.to);
  return planner::LinearProgram(corners, edges, 0).least_energy_j(deadline_s);
}

TEST(StepPlanner, BoundsAreThoseOfTheLinearProgram) {
  std::mt19937 random(48);
  for (int step = 0; step < 200; ++step) {
    const int stages = 1 + step % 4;
    const schedule::PipelineDag dag = sample_dag(stages, 2 + step % 5);
    const profile::StageProfile profile = sample_profile(stages);
    const std::vector<double> power_w(static_cast<std::size_t>(stages), kBlockingW);
    const StepPlanner planner(dag, profile, power_w, {});
    std::vector<std::vector<double>> work, busy;
    double longest_s = 0;
    for (int replica = 0; replica < 3; ++replica) {
      work.push_back(random_work(dag, random));
      longest_s = std::max(longest_s, planner.full_time_s(work.back()));
      busy.push_back(random_work(dag, random));
      for (double& share : busy.back()) share = step % 2 == 0 ? 1 : share / 3;
    }
    double bound_j = 0;
    double least_j = 0;
    for (std::size_t r = 0; r < work.size(); ++r) {
      bound_j += planner.bound(work[r], longest_s, busy[r]).effective_energy_j;
      least_j += least_by_linear_program(dag, profile, work[r], busy[r], longest_s);
      const ReplicaPlan plan = planner.plan(work[r], longest_s, {}, busy[r]);
      EXPECT_GE(plan.figures.effective_energy_j + stages * kBlockingW * longest_s,
                (planner.bound(work[r], longest_s, busy[r]).effective_energy_j + stages * kBlockingW * longest_s) *
                    (1 - 1e-9));
    }
    // Of the step's energy, waiting included: effective energies may cancel.
    const double energy_j = least_j + 3 * stages * kBlockingW * longest_s;
    EXPECT_NEAR(bound_j, least_j, 1e-9 * energy_j) << "step " << step;
  }
}

TEST(StepPlanner, PlansKeepTheDeadlineAndAreNearTheirBound) {
  std::mt19937 random(3);
  const schedule::PipelineDag dag = sample_dag(2, 8);
  const profile::StageProfile profile = sample_profile(2);
  const std::vector<double> power_w(2, kBlockingW);
  const StepPlanner per_unit(dag, profile, power_w, {});
  const StepPlanner per_replica(dag, profile, power_w, {.clocks_per = ClocksPer::replica});
  for (int i = 0; i < 50; ++i) {
    const std::vector<double> work = random_work(dag, random);
    const double deadline_s = (1 + 0.01 * i) * per_unit.full_time_s(work);
    const double waiting_j = 2 * kBlockingW * deadline_s;
    const double least_j = per_unit.bound(work, deadline_s).effective_energy_j + waiting_j;
    const ReplicaPlan units = per_unit.plan(work, deadline_s, {});
    const ReplicaPlan replica = per_replica.plan(work, deadline_s, {});
    EXPECT_LE(units.figures.time_s, deadline_s * (1 + 1e-10));
    EXPECT_LE(replica.figures.time_s, deadline_s * (1 + 1e-10));
    EXPECT_GE(units.figures.effective_energy_j + waiting_j, least_j * (1 - 1e-9));
    EXPECT_LE(units.figures.effective_energy_j + waiting_j, least_j * 1.03);
    EXPECT_GE(replica.figures.effective_energy_j, units.figures.effective_energy_j * (1 - 1e-9));
    EXPECT_EQ(std::ranges::count(replica.clocks_mhz, replica.clocks_mhz.front()),
              static_cast<std::ptrdiff_t>(replica.clocks_mhz.size()));
  }
}

TEST(StepPlanner, OneClockIsTheBestOfAll) {
  std::mt19937 random(5);
  const schedule::PipelineDag dag = sample_dag(2, 4);
  const profile::StageProfile profile = sample_profile(2);
  const std::vector<double> power_w(2, kBlockingW);
  const StepPlanner planner(dag, profile, power_w, {.clocks_per = ClocksPer::replica});
  for (const double slower : {1.0, 1.1, 1.3, 2.0}) {
    const std::vector<double> work = random_work(dag, random);
    const double deadline_s = slower * planner.full_time_s(work);
    const ReplicaPlan plan = planner.plan(work, deadline_s, {});
    for (const int clock_mhz : {1410, 1290, 1170, 1050, 930, 810}) {
      const std::vector<int> clocks(work.size(), clock_mhz);
      const ReplicaFigures other = planner.replay(work, clocks, {});
      if (other.time_s > deadline_s) continue;
      EXPECT_LE(plan.figures.effective_energy_j, other.effective_energy_j * (1 + 1e-12));
    }
  }
}

TEST(StepPlanner, AMarginLeavesTimeForSlowerUnits) {
  std::mt19937 random(9);
  const schedule::PipelineDag dag = sample_dag(2, 8);
  const profile::StageProfile profile = sample_profile(2);
  const std::vector<double> power_w(2, kBlockingW);
  const StepPlanner planner(dag, profile, power_w, {.margin = 0.04});
  std::vector<double> work = random_work(dag, random);
  const double deadline_s = 1.2 * planner.full_time_s(work);
  const ReplicaPlan plan = planner.plan(work, deadline_s, {});
  for (double& of_op : work) of_op *= 1.039;
  EXPECT_LE(planner.replay(work, plan.clocks_mhz, {}).time_s, deadline_s);
}

TEST(StepPlanner, ChargesClocksThatChangeLate) {
  std::mt19937 random(11);
  const schedule::PipelineDag dag = sample_dag(2, 8);
  const profile::StageProfile profile = sample_profile(2);
  const std::vector<double> power_w(2, kBlockingW);
  const StepPlanner late(dag, profile, power_w, {.late_by_s = 0.02});
  const StepPlanner at_once(dag, profile, power_w, {});
  const std::vector<int> before(2, 810);
  const std::vector<double> work = random_work(dag, random);
  const double deadline_s = 1.15 * late.full_time_s(work);
  const ReplicaPlan plan = late.plan(work, deadline_s, before);
  EXPECT_LE(plan.figures.time_s, deadline_s * (1 + 1e-10));
  // A rank that ended its last step slowly begins this one slowly.
  EXPECT_GT(late.replay(work, plan.clocks_mhz, before).time_s, at_once.replay(work, plan.clocks_mhz, before).time_s);
}

}  // namespace
}  // namespace lowgear::steps

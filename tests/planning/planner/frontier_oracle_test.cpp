/// The exact frontier against independent solutions of the same problem: a linear program, and trying every time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/linear_program.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/random_instances.h"
#include "planning/profile/options.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::planner {
namespace {

constexpr double kAgreement = 1e-9;

/// The program of a pipeline straight from its measurements.
LinearProgram linear_program_of(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                double blocking_power_w) {
  std::vector<std::vector<CostCorner>> corners;
  for (const schedule::ComputeOp& op : dag.ops) {
    const std::vector<profile::Option> options =
        pareto_options(profile.measurements(op.stage, op.kind), blocking_power_w);
    std::vector<CostCorner>& of_op = corners.emplace_back();
    for (const std::size_t index : lower_convex_hull(options)) {
      of_op.push_back({options[index].time_s, options[index].effective_energy_j});
    }
  }
  std::vector<std::pair<int, int>> edges;
  for (const schedule::DagEdge& edge : dag.edges) edges.emplace_back(edge.from, edge.to);
  return {corners, edges, blocking_power_w * dag.ranks};
}

/// Compares the whole range: random times, T* and a time just above T_min (at T_min itself, rounding to picoseconds may
/// leave the program without a solution).
void expect_agreement(const Frontier& frontier, LinearProgram& program, int deadlines, std::mt19937_64& random) {
  std::vector<TimePs> times_ps{frontier.slowest_ps(), std::min(frontier.fastest_ps() + 1000, frontier.slowest_ps())};
  for (int i = 0; i < deadlines; ++i) {
    times_ps.push_back(random_in(random, times_ps[1], frontier.slowest_ps()));
  }
  std::sort(times_ps.begin(), times_ps.end());  // each solution is close to the next
  for (const TimePs time_ps : times_ps) {
    const double expected_j = program.least_energy_j(s_from_ps(time_ps));
    EXPECT_NEAR(frontier.energy_j_at(time_ps), expected_j, kAgreement * expected_j) << "at " << time_ps << " ps";
    EXPECT_NEAR(frontier.lower_bound_j_at(time_ps), expected_j, kAgreement * expected_j) << "at " << time_ps << " ps";
  }
  // Beyond T* more time does not help.
  const double slower_j = program.least_energy_j(2 * s_from_ps(frontier.slowest_ps()));
  EXPECT_NEAR(frontier.energy_j_at(frontier.slowest_ps()), slower_j, kAgreement * slower_j);
}

struct OraclePipeline {
  std::string name;
  std::string profile;
  std::string schedule;
  double blocking_power_w = 0;

  friend std::ostream& operator<<(std::ostream& out, const OraclePipeline& pipeline) { return out << pipeline.name; }
};

class PublishedPipelines : public ::testing::TestWithParam<OraclePipeline> {};

TEST_P(PublishedPipelines, FrontierEqualsLinearProgram) {
  const auto text = simulator::read_shared("perseus/stage_profile/" + GetParam().profile);
  if (!text) GTEST_SKIP() << simulator::kNoSharedData;
  const bool interleaved = GetParam().schedule == "interleaved";
  profile::StageProfile profile = profile::read_profile_file(*text, GetParam().profile).profile;
  const int ranks = profile.stages();
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < 2 * ranks; ++stage) rank_of_stage.push_back(stage % ranks);
  profile = with_split_backward(interleaved ? with_stages_on_ranks(profile, rank_of_stage) : profile, 0.5);
  profile = with_recomputation(profile, 1);
  const schedule::PipelineDag dag = schedule::build_dag(
      schedule::make_schedule({GetParam().schedule, ranks, interleaved ? 2 * ranks : 12, interleaved ? 2 : 1, {}}));
  const std::vector<double> blocking_power_w(static_cast<std::size_t>(ranks), GetParam().blocking_power_w);
  const Frontier frontier = solve_frontier(make_planning_model(dag, profile, blocking_power_w).instance);
  LinearProgram program = linear_program_of(dag, profile, GetParam().blocking_power_w);
  std::mt19937_64 random(12);
  expect_agreement(frontier, program, 50, random);
}

std::vector<OraclePipeline> published_pipelines() {
  std::vector<OraclePipeline> pipelines;
  for (const std::string schedule :
       {"1f1b", "gpipe", "zb-h1", "interleaved", "merak-early-recompute", "merak-full-critical-path"}) {
    std::string name = schedule;
    std::erase(name, '-');
    pipelines.push_back({"gpt3_a100_" + name, "gpt3-175b+a100_sxm_bf16.csv", schedule, 83.64});
    pipelines.push_back({"bloom_a40_" + name, "bloom+a40_bf16.csv", schedule, 70.38});
  }
  return pipelines;
}

INSTANTIATE_TEST_SUITE_P(FrontierOracle, PublishedPipelines, ::testing::ValuesIn(published_pipelines()),
                         [](const auto& pipeline) { return pipeline.param.name; });

TEST(FrontierOracle, RandomGraphsEqualLinearPrograms) {
  std::mt19937_64 random(2024);
  for (int i = 0; i < 240; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    const ProblemInstance instance = random_instance(random, {});
    const Frontier frontier = solve_frontier(instance);
    LinearProgram program = linear_program_of(instance);
    expect_agreement(frontier, program, 6, random);
    if (HasFailure()) return;
  }
}

/// Least sum of effective energies for every whole deadline from 0 to the slowest iteration, by trying all whole times
/// of all ops; none where no iteration is so fast. The frontier's slopes are whole powers, so that whole times suffice.
std::vector<std::optional<EnergyZj>> least_energies(const ProblemInstance& instance) {
  std::vector<TimePs> time_ps;
  for (int op = 0; op < instance.op_count(); ++op) time_ps.push_back(instance.cost(op).slowest_ps());
  std::vector<std::optional<EnergyZj>> least(static_cast<std::size_t>(makespan_ps(instance, time_ps)) + 1);
  for (bool more = true; more;) {
    const EnergyZj energy_zj = effective_energy_zj(instance, time_ps);
    for (auto at = static_cast<std::size_t>(makespan_ps(instance, time_ps)); at < least.size(); ++at) {
      if (!least[at] || energy_zj < *least[at]) least[at] = energy_zj;
    }
    more = false;
    for (int op = 0; op < instance.op_count() && !more; ++op) {  // counts down, op 0 fastest
      TimePs& time = time_ps[static_cast<std::size_t>(op)];
      more = time > instance.cost(op).fastest_ps();
      time = more ? time - 1 : instance.cost(op).slowest_ps();
    }
  }
  return least;
}

TEST(FrontierOracle, TinyGraphsEqualTryingEverything) {
  constexpr RandomInstanceLimits kTiny{1, 5, 3, 6, 12, 20};
  std::mt19937_64 random(7);
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE("graph " + std::to_string(i));
    const ProblemInstance instance = random_instance(random, kTiny);
    const std::vector<std::optional<EnergyZj>> least_zj = least_energies(instance);
    const auto total_zj = [&](std::size_t time_ps) {
      return *least_zj[time_ps] + static_cast<EnergyZj>(instance.blocking_power_nw) * static_cast<EnergyZj>(time_ps);
    };
    std::size_t fastest_ps = 0;
    while (!least_zj[fastest_ps]) ++fastest_ps;
    std::size_t best_ps = fastest_ps;
    for (std::size_t time_ps = fastest_ps; time_ps < least_zj.size(); ++time_ps) {
      if (total_zj(time_ps) < total_zj(best_ps)) best_ps = time_ps;
    }

    const Frontier frontier = solve_frontier(instance);
    EXPECT_EQ(frontier.fastest_ps(), static_cast<TimePs>(fastest_ps));
    EXPECT_EQ(frontier.slowest_ps(), static_cast<TimePs>(best_ps)) << "the first time of least energy";
    for (const FrontierVertex& vertex : frontier.vertices()) {
      EXPECT_TRUE(vertex.effective_energy_zj == *least_zj[static_cast<std::size_t>(vertex.time_ps)]);
    }
    for (std::size_t time_ps = fastest_ps; time_ps <= best_ps; ++time_ps) {
      const double expected_j = j_from_zj(total_zj(time_ps));
      EXPECT_DOUBLE_EQ(frontier.energy_j_at(static_cast<TimePs>(time_ps)), expected_j);
      EXPECT_DOUBLE_EQ(frontier.lower_bound_j_at(static_cast<TimePs>(time_ps)), expected_j);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lowgear::planner

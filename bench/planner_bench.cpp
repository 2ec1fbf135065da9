/// The parts of planning, one by one, for those who work on them: on Lowgear's example profile, 8 stages. What a user
/// waits for is in the studies.
#include <benchmark/benchmark.h>

#include <vector>

#include "pipelines.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/sandwich.h"
#include "planning/planner/planners/discrete_planner.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/planners/rounding.h"
#include "planning/profile/example_profile.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

namespace lowgear::bench {
namespace {

constexpr double kBlockingPowerW = 75;

Pipeline example_pipeline(const benchmark::State& state) {
  return {profile::example_profile(), kBlockingPowerW, static_cast<int>(state.range(0))};
}

planner::PlanningModel model_of(const Pipeline& pipeline) {
  return planner::make_planning_model(pipeline.dag(), pipeline.profile(), pipeline.blocking_power_w());
}

/// A solved frontier, and what solves deadlines on it. Stays where it is.
struct Solved {
  explicit Solved(const benchmark::State& state) : pipeline(example_pipeline(state)), model(model_of(pipeline)) {}
  Solved(const Solved&) = delete;
  Solved& operator=(const Solved&) = delete;

  /// Goes through deadlines of the frontier, one after the other.
  [[nodiscard]] TimePs next_deadline_ps() {
    constexpr TimePs kSteps = 97;
    step = (step + 31) % kSteps;
    return frontier.fastest_ps() + (frontier.slowest_ps() - frontier.fastest_ps()) / kSteps * step;
  }

  Pipeline pipeline;
  planner::PlanningModel model;
  planner::Checkpoints checkpoints{model.instance};
  planner::FrontierObserver* observers[1] = {&checkpoints};
  planner::Frontier frontier = solve_frontier(model.instance, observers);
  planner::DeadlineSolver solver{model.instance, &checkpoints};
  TimePs step = 0;
};

void build_model(benchmark::State& state) {
  const profile::StageProfile profile = profile::example_profile();
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(instance_of(profile, kBlockingPowerW, static_cast<int>(state.range(0))));
  }
}

void exact_frontier(benchmark::State& state) {
  const planner::PlanningModel model = model_of(example_pipeline(state));
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(solve_frontier(model.instance));
}

void sandwiched_frontier(benchmark::State& state) {
  const planner::PlanningModel model = model_of(example_pipeline(state));
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(solve_sandwich(model.instance, 1e-3));
}

void continuous_deadline(benchmark::State& state) {
  Solved solved(state);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(solved.solver.solve(solved.next_deadline_ps()));
  }
}

void one_rounding(benchmark::State& state) {
  Solved solved(state);
  planner::Rounder rounder(solved.model);
  const planner::ContinuousPlan continuous = solved.solver.solve(solved.next_deadline_ps());
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(rounder.round(continuous, {}));
}

void library_of_plans(benchmark::State& state) {
  Solved solved(state);
  for ([[maybe_unused]] auto _ : state) {
    planner::DiscretePlanner planner(solved.model, solved.solver);
    planner.prepare(solved.frontier);
  }
}

void discrete_plan(benchmark::State& state) {
  Solved solved(state);
  planner::DiscretePlanner planner(solved.model, solved.solver);
  planner.prepare(solved.frontier);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(planner.plan(solved.next_deadline_ps()));
}

void replay_of_plan(benchmark::State& state) {
  const Pipeline pipeline = example_pipeline(state);
  const std::vector<int> clocks_mhz(pipeline.dag().ops.size(), profile::ExampleGpu{}.max_clock_mhz);
  for ([[maybe_unused]] auto _ : state) {
    const auto costs = simulator::costs_at_clocks(pipeline.dag(), pipeline.profile(), clocks_mhz);
    benchmark::DoNotOptimize(simulator::replay(pipeline.dag(), costs, pipeline.blocking_power_w()));
  }
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("microbatches")->Arg(12)->Arg(96)->Unit(benchmark::kMillisecond);
}

BENCHMARK(build_model)->Apply(sizes);
BENCHMARK(exact_frontier)->Apply(sizes);
BENCHMARK(sandwiched_frontier)->Apply(sizes);
BENCHMARK(continuous_deadline)->Apply(sizes);
BENCHMARK(one_rounding)->Apply(sizes);
BENCHMARK(library_of_plans)->Apply(sizes);
BENCHMARK(discrete_plan)->Apply(sizes);
BENCHMARK(replay_of_plan)->Apply(sizes);

}  // namespace
}  // namespace lowgear::bench

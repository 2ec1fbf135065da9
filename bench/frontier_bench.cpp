/// How long frontiers take, from a profile in memory: schedule, graph, costs and every vertex, on one thread. A
/// repetition is one solve, so that the spread is that of single solves.
#include <benchmark/benchmark.h>

#include <array>
#include <optional>

#include "pipelines.h"
#include "planner/certificate.h"
#include "planner/frontier.h"
#include "planner/periodic.h"
#include "planner/sandwich.h"

namespace lowgear::bench {
namespace {

constexpr double kEpsilon = 1e-3;

void report(benchmark::State& state, const Frontier& frontier) {
  state.counters["vertices"] = static_cast<double>(frontier.vertices().size());
}

/// Every vertex of GPT-3's frontier.
void exact(benchmark::State& state) {
  if (!given_data_present()) return state.SkipWithError(kNoGivenData);
  const StageProfile profile = kGpt3OnA100.read();
  for ([[maybe_unused]] auto _ : state) {
    const ProblemInstance instance =
        instance_of(profile, kGpt3OnA100.blocking_power_w, static_cast<int>(state.range(0)));
    report(state, solve_frontier(instance));
  }
}

/// The same, with all that `lowgear plan` keeps of it: checkpoints for its deadlines, and the certificate.
void exact_with_certificate(benchmark::State& state) {
  if (!given_data_present()) return state.SkipWithError(kNoGivenData);
  const StageProfile profile = kGpt3OnA100.read();
  for ([[maybe_unused]] auto _ : state) {
    const ProblemInstance instance =
        instance_of(profile, kGpt3OnA100.blocking_power_w, static_cast<int>(state.range(0)));
    Checkpoints checkpoints;
    CertificateRecorder certificate;
    const std::array<FrontierObserver*, 2> observers{&checkpoints, &certificate};
    report(state, solve_frontier(instance, observers));
  }
}

/// The same frontier, carried on from few microbatches.
void periodic(benchmark::State& state) {
  if (!given_data_present()) return state.SkipWithError(kNoGivenData);
  const StageProfile profile = kGpt3OnA100.read();
  const InstanceOfMicrobatches instance = [&profile](int microbatches) {
    return instance_of(profile, kGpt3OnA100.blocking_power_w, microbatches);
  };
  for ([[maybe_unused]] auto _ : state) {
    const std::optional<PeriodicFrontier> found =
        solve_periodic(instance, static_cast<int>(state.range(0)), 2 * kGivenStages);
    if (!found) return state.SkipWithError("the frontier was not found to be periodic");
    report(state, found->frontier);
    state.counters["solved_microbatches"] = found->solved_microbatches;
  }
}

/// Every vertex, where all stages differ.
void exact_of_unequal_stages(benchmark::State& state) {
  const StageProfile profile = unequal_stages(static_cast<int>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) {
    const ProblemInstance instance = instance_of(profile, kUnequalBlockingPowerW, static_cast<int>(state.range(1)));
    report(state, solve_frontier(instance));
  }
}

/// Between bounds at most 0.1 % apart, where all stages differ.
void sandwich_of_unequal_stages(benchmark::State& state) {
  const StageProfile profile = unequal_stages(static_cast<int>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) {
    const ProblemInstance instance = instance_of(profile, kUnequalBlockingPowerW, static_cast<int>(state.range(1)));
    const Sandwich sandwich = solve_sandwich(instance, kEpsilon);
    report(state, sandwich.frontier);
    state.counters["epsilon"] = sandwich.frontier.epsilon();
  }
}

double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }
double largest(const std::vector<double>& values) { return *std::ranges::max_element(values); }

void single_solves(benchmark::internal::Benchmark* benchmark, int repetitions) {
  benchmark->Iterations(1)->Repetitions(repetitions)->UseRealTime()->Unit(benchmark::kMillisecond);
  benchmark->ComputeStatistics("min", least)->ComputeStatistics("max", largest)->ReportAggregatesOnly();
}

void many(benchmark::internal::Benchmark* benchmark) { single_solves(benchmark, 15); }
void several(benchmark::internal::Benchmark* benchmark) { single_solves(benchmark, 5); }
void few(benchmark::internal::Benchmark* benchmark) { single_solves(benchmark, 3); }

BENCHMARK(exact)->ArgName("M")->Arg(96)->Apply(many);
BENCHMARK(exact)->ArgName("M")->Arg(1024)->Apply(several);
BENCHMARK(exact_with_certificate)->ArgName("M")->Arg(96)->Apply(many);
BENCHMARK(exact_with_certificate)->ArgName("M")->Arg(1024)->Apply(several);
BENCHMARK(periodic)->ArgName("M")->Arg(1024)->Arg(16384)->Apply(many);
BENCHMARK(sandwich_of_unequal_stages)->ArgNames({"S", "M"})->Args({32, 128})->Apply(several);
BENCHMARK(sandwich_of_unequal_stages)->ArgNames({"S", "M"})->Args({64, 512})->Apply(few);
BENCHMARK(exact_of_unequal_stages)->ArgNames({"S", "M"})->Args({8, 96})->Args({16, 96})->Apply(several);
BENCHMARK(exact_of_unequal_stages)->ArgNames({"S", "M"})->Args({32, 128})->Apply(few);

}  // namespace
}  // namespace lowgear::bench

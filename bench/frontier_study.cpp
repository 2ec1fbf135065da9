/// The targets on frontiers, from a profile in memory: schedule, graph, costs and solution, on one thread; medians of
/// single solves and their spread.
#include <fmt/format.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "measurement.h"
#include "pipelines.h"
#include "planner/frontier.h"
#include "planner/sandwich.h"

namespace lowgear::bench {
namespace {

constexpr double kEpsilon = 1e-3;

template <typename Solve>
Spread repeated(int times, Solve&& solve) {
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(times));
  for (int i = 0; i < times; ++i) seconds.push_back(seconds_of(solve));
  return spread_of(std::move(seconds));
}

void print_time(std::string_view what, const Spread& spread, double reach_s) {
  const auto text = [](double seconds) {
    return seconds < 1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.2f} s", seconds);
  };
  print_target(what, fmt::format("{} ({}–{})", text(spread.median), text(spread.min), text(spread.max)),
               fmt::format("≤ {:g} s", reach_s), spread.median <= reach_s);
}

void run_given() {
  const StageProfile profile = kGpt3OnA100.read();
  const auto exact = [&](int microbatches) {
    return [&profile, microbatches] {
      (void)solve_frontier(instance_of(profile, kGpt3OnA100.blocking_power_w, microbatches));
    };
  };
  print_time("exact frontier, gpt3-175b A100, 8 stages, M=96 (15 solves)", repeated(15, exact(96)), 0.05);
  print_time("the same, M=1024 (7 solves)", repeated(7, exact(1024)), 0.3);
}

void run_unequal() {
  const StageProfile of_32 = unequal_stages(32);
  const StageProfile of_64 = unequal_stages(64);
  double epsilon_32 = 0;
  double epsilon_64 = 0;
  const Spread sandwich_64 = repeated(3, [&] {
    epsilon_64 = solve_sandwich(instance_of(of_64, kUnequalBlockingPowerW, 512), kEpsilon).frontier.epsilon();
  });
  // Before anything larger runs in this process: the peak is that of the 64 stages.
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double peak_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  print_time(fmt::format("64 unequal stages, M=512, ε = 0.1 % (found {:.3f} %; 3 solves)", 100 * epsilon_64),
             sandwich_64, 5);
  print_target("the same, peak memory of the process", fmt::format("{:.0f} MB", peak_mb), "≤ 500 MB", peak_mb <= 500);
  const Spread sandwich_32 = repeated(5, [&] {
    epsilon_32 = solve_sandwich(instance_of(of_32, kUnequalBlockingPowerW, 128), kEpsilon).frontier.epsilon();
  });
  print_time(fmt::format("32 unequal stages, M=128, ε = 0.1 % (found {:.3f} %; 5 solves)", 100 * epsilon_32),
             sandwich_32, 3);
  const Spread exact_32 = repeated(3, [&] { (void)solve_frontier(instance_of(of_32, kUnequalBlockingPowerW, 128)); });
  print_time("the same, every vertex (3 solves)", exact_32, 60);
}

}  // namespace
}  // namespace lowgear::bench

int main() {
  lowgear::bench::run_unequal();
  if (lowgear::bench::require_given_data("frontier_study")) lowgear::bench::run_given();
}

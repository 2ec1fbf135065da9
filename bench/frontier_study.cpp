/// How long frontiers take, from a profile in memory: schedule, graph, costs and solution, on one thread; medians of
/// single solves and their spread. Where stages are unequal, the first solve is that of 64 stages, so that the process'
/// peak memory is known to be its own.
///
/// `frontier_study --profile STAGES` writes the profile of unequal stages instead, for `lowgear plan`.
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measurement.h"
#include "pipelines.h"
#include "planning/planner/frontier/certificate.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/frontier/sandwich.h"
#include "planning/profile/profile_file.h"

namespace lowgear::bench {
namespace {

constexpr double kEpsilon = 1e-3;

/// Something to time, with the number that it should reach where there is one.
struct Case {
  std::string what;
  int solves = 1;
  std::optional<double> reach_s;
  std::function<planner::Frontier()> solve;
};

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.2f} s", seconds);
}

void measure(const Case& measured) {
  std::vector<double> seconds;
  std::optional<planner::Frontier> frontier;
  for (int i = 0; i < measured.solves; ++i) seconds.push_back(seconds_of([&] { frontier = measured.solve(); }));
  const Spread spread = spread_of(std::move(seconds));
  const std::string time = fmt::format("{} ({} to {}; {} solves)", time_text(spread.median), time_text(spread.min),
                                       time_text(spread.max), measured.solves);
  const std::string reach = measured.reach_s ? fmt::format("≤ {:g} s", *measured.reach_s) : std::string();
  fmt::print("| {} | {} | {} | {:.4f} % | {} |\n", measured.what, time, frontier->vertices().size(),
             100 * frontier->epsilon(), reach);
  if (measured.reach_s) print_target(measured.what, time, reach, spread.median <= *measured.reach_s);
}

planner::Frontier exact(const profile::StageProfile& profile, int microbatches) {
  return planner::solve_frontier(instance_of(profile, kGpt3OnA100.blocking_power_w, microbatches));
}

planner::Frontier exact_with_certificate(const profile::StageProfile& profile, int microbatches) {
  const planner::ProblemInstance instance = instance_of(profile, kGpt3OnA100.blocking_power_w, microbatches);
  planner::Checkpoints checkpoints(instance);
  planner::CertificateRecorder certificate;
  const std::array<planner::FrontierObserver*, 2> observers{&checkpoints, &certificate};
  return solve_frontier(instance, observers);
}

planner::Frontier sandwiched(const profile::StageProfile& profile, int microbatches) {
  return planner::solve_sandwich(instance_of(profile, kGpt3OnA100.blocking_power_w, microbatches), kEpsilon).frontier;
}

void run_unequal() {
  const profile::StageProfile of_64 = unequal_stages(64);
  measure({"64 unequal stages, M = 512 (65,536 ops), ε = 0.1 %", 3, 5, [&] { return sandwiched(of_64, 512); }});
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double peak_mb = static_cast<double>(usage.ru_maxrss) * 1024e-6;  // Linux counts in KiB
  print_target("the same, peak memory of the process", fmt::format("{:.0f} MB", peak_mb), "≤ 500 MB", peak_mb <= 500);
  const profile::StageProfile of_32 = unequal_stages(32);
  measure({"32 unequal stages, M = 128, ε = 0.1 %", 5, 3, [&] { return sandwiched(of_32, 128); }});
  measure({"32 unequal stages, M = 128, every vertex", 3, 60, [&] { return exact(of_32, 128); }});
  const profile::StageProfile of_16 = unequal_stages(16);
  measure({"16 unequal stages, M = 96, every vertex", 5, {}, [&] { return exact(of_16, 96); }});
  const profile::StageProfile of_8 = unequal_stages(8);
  measure({"8 unequal stages, M = 96, every vertex", 5, {}, [&] { return exact(of_8, 96); }});
}

void run_given() {
  const profile::StageProfile gpt3 = kGpt3OnA100.read();
  measure({"exact frontier, gpt3-175b A100, 8 stages, M = 96", 15, 0.05, [&] { return exact(gpt3, 96); }});
  measure({"the same, with checkpoints and certificate", 15, {}, [&] { return exact_with_certificate(gpt3, 96); }});
  measure({"exact frontier, gpt3-175b A100, 8 stages, M = 1024", 7, 0.3, [&] { return exact(gpt3, 1024); }});
  measure({"the same, with checkpoints and certificate", 7, {}, [&] { return exact_with_certificate(gpt3, 1024); }});
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  using namespace lowgear;
  if (argc == 3 && argv[1] == std::string_view("--profile")) {
    fmt::print("{}", profile::write_profile_file({.profile = bench::unequal_stages(std::atoi(argv[2]))}));
    return 0;
  }
  fmt::print("| frontier | time | vertices | from its bound | reach |\n|---|---|---|---|---|\n");
  bench::run_unequal();
  if (bench::require_given_data("frontier_study")) bench::run_given();
  return 0;
}

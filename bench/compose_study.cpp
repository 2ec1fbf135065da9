/// Composing an op of 12 partitions: the lower hull of all choices of one setting for each, with 540 settings a
/// partition at one clock, and with as many over 18 clocks (30 at each), as Kareus' `fwd_mlp` has them.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "measurement.h"
#include "planning/profile/compose/composed_profile.h"

namespace lowgear::bench {
namespace {

constexpr int kPartitions = 12;
constexpr int kSettings = 540;
constexpr int kSolves = 15;
constexpr double kReachS = 0.05;

double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

/// Settings of partitions that all differ: more SMs for the collective shorten it and slow the computation, with noise.
profile::PartTable partitions(int clocks) {
  std::mt19937_64 random(20261123);
  profile::PartTable table;
  for (int clock = 0; clock < clocks; ++clock) {
    const int clock_mhz = 1410 - 30 * clock;
    std::vector<profile::SeriesPart>& parts = table[{0, OpKind::forward, clock_mhz}];
    for (int part = 0; part < kPartitions; ++part) {
      profile::SeriesPart& made = parts.emplace_back(profile::SeriesPart{fmt::format("part{}", part), 1, {}});
      for (int setting = 0; setting < kSettings / clocks; ++setting) {
        const double share = (setting + 0.5) * clocks / kSettings;
        const double time_s = (0.001 + 0.0004 * part) * (1 + share + 0.02 * uniform(random)) * 1410 / clock_mhz;
        const double energy_j = 400 * 0.003 * (1 + 0.5 / (0.2 + share)) * (1 + 0.02 * uniform(random));
        made.options.push_back({time_s, energy_j, fmt::format("sm{}", setting)});
      }
    }
  }
  return table;
}

std::string row(const std::string& what, const profile::PartTable& table) {
  profile::ComposedProfile composed;
  std::vector<double> times_s;
  for (int solve = 0; solve < kSolves; ++solve) {
    times_s.push_back(seconds_of([&] { composed = compose_profile(table, {.max_options = 64}); }));
  }
  const Spread time_s = spread_of(times_s);
  std::size_t vertices = 0;
  std::size_t options = 0;
  double thinned = 0;
  double step = 0;
  double combinations = 0;
  for (const profile::ComposedCell& cell : composed.cells) {
    vertices += cell.vertices;
    options += cell.options;
    combinations += cell.combinations;
    thinned = std::max(thinned, cell.gap.thinned);
    step = std::max(step, cell.gap.step);
  }
  const std::string time = fmt::format("{:.2f} ms ({:.2f} ms to {:.2f} ms; {} runs)", 1e3 * time_s.median,
                                       1e3 * time_s.min, 1e3 * time_s.max, kSolves);
  print_target("composing 12 partitions, " + what, time, "≤ 50 ms", time_s.median <= kReachS);
  return fmt::format("| {} | {} | {:.3g} | {} | {} | {:.4f} % | {:.3f} % |\n", what, time, combinations, vertices,
                     options, 100 * thinned, 100 * step);
}

void run() {
  const std::string at_one = row("540 settings at one clock", partitions(1));
  const std::string at_many = row("18 clocks x 30 settings", partitions(18));
  fmt::print(
      "| 12 partitions | time | combinations | on the hull | options kept | above hull | largest step |\n"
      "|---|---|---|---|---|---|---|\n{}{}",
      at_one, at_many);
}

}  // namespace
}  // namespace lowgear::bench

int main() { return lowgear::bench::run_study(lowgear::bench::run); }

/// What estimates from samples are worth: errors on samples that were kept out of the fit, the published estimator's
/// own times by its own formula, and how long an estimate takes from the files on.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "measurement.h"
#include "sampled_accuracy.h"

namespace lowgear::bench {
namespace {

struct Reach {
  double random_pct;
  double largest_pct;
};
Reach reach_of(const HoldoutTable& table) { return table.cluster == "Perlmutter" ? Reach{2.9, 5.6} : Reach{2.4, 7.3}; }
constexpr double kReachPeerPct = 3;
constexpr double kReachColdS = 0.3;

void print_row(const std::string& name, const std::string& samples, const std::string& repeats,
               const HoldoutErrors& random, const HoldoutErrors& largest) {
  fmt::print("| {} | {} | {} | {:.2f} | {:.2f} | {:.0f} | {:.2f} | {:.2f} | {:.0f} |\n", name, samples, repeats,
             random.own_mape_pct, random.pooled_mape_pct, random.covered_pct, largest.own_mape_pct,
             largest.pooled_mape_pct, largest.covered_pct);
}

void print_table(const HoldoutTable& table) {
  fmt::print(
      "\n{}: mean absolute error in % on a fifth of each file, by lot (seed {}) and the largest by work\n\n"
      "| operator | samples (thrown out) | repeats of a shape | random: own file | pooled | in 90 % | largest: own "
      "file | pooled | in 90 % "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|\n",
      table.cluster, kHoldoutSeed);
  for (const HoldoutRow& row : table.rows) {
    print_row(fmt::format("{} {}", row.function, row.pass == estimator::Pass::forward ? "forward" : "backward"),
              fmt::format("{} ({})", row.samples, row.thrown_out),
              row.repeats_mape_pct ? fmt::format("{:.2f}", *row.repeats_mape_pct) : "", row.random, row.largest);
  }
  const HoldoutMeans all = means_of_all(table);
  const HoldoutMeans ten = means_of_ten(table);
  print_row("mean of all", "", "", all.random, all.largest);
  print_row("mean of the ten operators of llemma without known defects", "", "", ten.random, ten.largest);
  for (const std::string& name : table.left_out) fmt::print("\nleft out: {}, which cannot be believed\n", name);
  const Reach reach = reach_of(table);
  print_target(fmt::format("ten operators of {}, held-out MAPE, random (all: {:.2f} %)", table.cluster,
                           all.random.pooled_mape_pct),
               fmt::format("{:.2f} %", ten.random.pooled_mape_pct), fmt::format("<= {} %", reach.random_pct),
               ten.random.pooled_mape_pct <= reach.random_pct);
  print_target(fmt::format("ten operators of {}, held-out MAPE, largest fifth (all: {:.2f} %)", table.cluster,
                           all.largest.pooled_mape_pct),
               fmt::format("{:.2f} %", ten.largest.pooled_mape_pct), fmt::format("<= {} %", reach.largest_pct),
               ten.largest.pooled_mape_pct <= reach.largest_pct);
}

void print_peer_runs() {
  fmt::print("\n| configuration | published tool, s | its formula here, s | difference |\n|---|---|---|---|\n");
  double worst_pct = 0;
  for (const PeerRun& run : peer_runs()) {
    const double off_pct = 100 * (run.reproduced_s / run.published_s - 1);
    if (run.config.starts_with("llemma")) worst_pct = std::max(worst_pct, std::abs(off_pct));
    fmt::print("| {} | {:.4f} | {:.4f} | {:+.2f} % |\n", run.config, run.published_s, run.reproduced_s, off_pct);
  }
  print_target("published estimator's llemma examples by its formula", fmt::format("{:.2f} % off", worst_pct),
               fmt::format("within {} %", kReachPeerPct), worst_pct <= kReachPeerPct);
}

void print_cold_starts() {
  double slowest_s = 0;
  for (const ColdStart& start : cold_starts()) {
    fmt::print("\n{}: files read in {:.1f} ms, Llama 2 7B estimated in {:.0f} ms\n", start.cluster,
               1e3 * start.reading_s, 1e3 * start.estimating_s);
    slowest_s = std::max(slowest_s, start.reading_s + start.estimating_s);
  }
  print_target("estimate from samples, cold start", fmt::format("{:.2f} s", slowest_s),
               fmt::format("<= {} s", kReachColdS), slowest_s <= kReachColdS);
}

void study() {
  if (!samples_present()) {
    std::fprintf(stderr, "%s\n", kNoSamples);
    return;
  }
  print_cold_starts();
  for (const HoldoutTable& table : operator_holdout()) print_table(table);
  print_peer_runs();
}

}  // namespace
}  // namespace lowgear::bench

int main() { return lowgear::bench::run_study(lowgear::bench::study); }

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "estimating/estimator/gpu/gpu_model.h"
#include "sampled_accuracy.h"
#include "section.h"

namespace lowgear::bench {
namespace {

/// What means over all operators and passes should reach.
struct HoldoutReach {
  std::string_view cluster;
  double random_pct;
  double largest_pct;
};
constexpr HoldoutReach kPerlmutter{"Perlmutter", 2.9, 5.6};
constexpr HoldoutReach kVista{"Vista", 2.4, 7.3};
constexpr double kPeerReachPct = 3;

std::string row_of(const HoldoutRow& row) {
  return fmt::format("| {} | {} | {} | {} | {:.2f} % | {:.2f} % | {:.2f} % | {:.0f} % |\n", row.function,
                     row.pass == estimator::Pass::forward ? "forward" : "backward", row.samples, row.thrown_out,
                     row.random.own_mape_pct, row.random.pooled_mape_pct, row.largest.own_mape_pct,
                     row.random.covered_pct);
}

void append(const HoldoutTable& table, AccuracySection& section) {
  const HoldoutReach& reach = table.cluster == kVista.cluster ? kVista : kPerlmutter;
  section.markdown += fmt::format(
      "\n### {}\n\n| operator | pass | samples | discarded | random fifth | of all files together | largest fifth | "
      "within "
      "the interval |\n|---|---|---|---|---|---|---|---|\n",
      table.cluster);
  for (const HoldoutRow& row : table.rows) section.markdown += row_of(row);
  for (const std::string& name : table.left_out) {
    section.markdown += fmt::format("\nDiscarded entirely: {}.", name);
  }
  const HoldoutMeans ten = means_of_ten(table);
  const HoldoutMeans all = means_of_all(table);
  section.markdown += fmt::format(
      "\nMeans over all rows, fitted to all files together: {:.2f} % at random, {:.2f} % of the largest. Over the ten "
      "operators of the llemma example without known defects, each from its own file: {:.2f} and {:.2f} %.\n",
      all.random.pooled_mape_pct, all.largest.pooled_mape_pct, ten.random.own_mape_pct, ten.largest.own_mape_pct);
  const auto target = [&](std::string_view what, double pct, double reach_pct) {
    section.targets.push_back({fmt::format("{}, {}", what, table.cluster), fmt::format("{:.2f} %", pct),
                               fmt::format("≤ {} %", reach_pct), pct <= reach_pct});
  };
  target("sampled operators, a random fifth held out", all.random.pooled_mape_pct, reach.random_pct);
  target("sampled operators, the largest fifth by work held out", all.largest.pooled_mape_pct, reach.largest_pct);
}

}  // namespace

AccuracySection operator_section() {
  AccuracySection section;
  section.markdown =
      "## Sampled operators\n\nRegressors of `MeasuredOperatorCosts` on the samples of the ICICLE project, fitted to "
      "four "
      "fifths of a file, and judged on the fifth that was held out: a random fifth, or the fifth with the most work "
      "(which extrapolates).\n";
  if (!samples_present()) {
    section.markdown += "\nNOT CHECKED: the samples are not in ../shared/data/operators.\n";
    return section;
  }
  for (const HoldoutTable& table : operator_holdout()) append(table, section);
  return section;
}

AccuracySection peer_section() {
  AccuracySection section;
  section.markdown =
      "## The published formula\n\n`lowgear estimate --peer-formula` composes iterations as the ICICLE project's "
      "estimator does, from the same samples; only the random draws of its libraries differ.\n\n";
  if (!samples_present()) {
    section.markdown += "NOT CHECKED: the samples are not in ../shared/data/operators.\n";
    return section;
  }
  section.markdown += "| configuration | published estimator, s | Lowgear, s | difference |\n|---|---|---|---|\n";
  for (const PeerRun& run : peer_runs()) {
    const double difference_pct = (run.reproduced_s / run.published_s - 1) * 100;
    section.markdown += fmt::format("| {} | {:.3f} | {:.3f} | {:+.2f} % |\n", run.config, run.published_s,
                                    run.reproduced_s, difference_pct);
    if (!run.config.starts_with("llemma")) continue;
    section.targets.push_back({fmt::format("`--peer-formula` on {}", run.config),
                               fmt::format("{:.3f} s, {:+.2f} %", run.reproduced_s, difference_pct),
                               fmt::format("{:.3f} s within {} %", run.published_s, kPeerReachPct),
                               std::abs(difference_pct) <= kPeerReachPct});
  }
  return section;
}

}  // namespace lowgear::bench

/// What recomputing early saves: 1F1B whose backwards recompute against Merak's schedules, *planned* at equal
/// deadlines.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "pipelines.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/merak_schedules.h"

namespace lowgear::bench {
namespace {

/// A recomputation takes what its forward takes.
constexpr double kShare = 1;
constexpr std::array kDelays = {1.0, 1.05, 1.2};  ///< deadlines, by the T_min of 1F1B whose backwards recompute

/// 1F1B whose backwards recompute, but for the last rank, which keeps all activations: as much work as Merak's
/// schedules for which it does so, in the usual order.
schedule::Schedule one_f_one_b_with_last_kept(int microbatches) {
  schedule::Schedule order = schedule::merak_1f1b_schedule(kGivenStages, microbatches);
  order.name = "merak-1f1b, last rank keeps all";
  for (schedule::Action& action : order.ranks.back()) {
    if (action.op == OpKind::recomputing_backward) action.op = OpKind::backward;
  }
  return order;
}

std::vector<schedule::Schedule> orders(int microbatches) {
  return {schedule::merak_1f1b_schedule(kGivenStages, microbatches),
          schedule::merak_early_recompute_schedule(kGivenStages, microbatches),
          one_f_one_b_with_last_kept(microbatches),
          schedule::merak_last_no_recompute_schedule(kGivenStages, microbatches),
          schedule::merak_full_critical_path_schedule(kGivenStages, microbatches),
          schedule::one_f_one_b_schedule(kGivenStages, microbatches)};
}

std::string held_text(const schedule::Schedule& order) {
  schedule::HeldPeaks most;
  for (const schedule::HeldPeaks& rank : held_peaks(order)) {
    most.activations = std::max(most.activations, rank.activations);
    most.inputs = std::max(most.inputs, rank.inputs);
  }
  return fmt::format("{} + {}", most.activations, most.inputs);
}

void print_rows(const GivenProfile& given, int microbatches) {
  const profile::StageProfile profile = with_recomputation(given.read(), kShare);
  const std::vector<double> blocking_power_w(kGivenStages, given.blocking_power_w);
  double base_s = 0;
  std::vector<double> base_j;
  for (const schedule::Schedule& order : orders(microbatches)) {
    planner::PipelinePlanner planner(order, profile, blocking_power_w, {.method = planner::FrontierMethod::exact});
    const bool is_base = base_s == 0;
    if (is_base) base_s = planner.fastest_s();
    fmt::print("| {}, {} | {} | {} | {:.4f} s ({:+.2f} %) |", given.name, microbatches, order.name, held_text(order),
               planner.fastest_s(), 100 * (planner.fastest_s() / base_s - 1));
    double largest_gap_pct = 0;
    for (std::size_t at = 0; at < kDelays.size(); ++at) {
      const plan::Plan plan = planner.plan(kDelays[at] * base_s);
      if (is_base) base_j.push_back(plan.energy_j);
      fmt::print(" {:.1f} J ({:+.2f} %) |", plan.energy_j, 100 * (plan.energy_j / base_j[at] - 1));
      largest_gap_pct = std::max(largest_gap_pct, 100 * (plan.energy_j / *plan.lower_bound_j - 1));
    }
    fmt::print(" {:.2f} % |\n", largest_gap_pct);
  }
}

int run() {
  if (!require_given_data("recomputation_study")) return 0;
  fmt::print(
      "| profile, microbatches | order | activations + inputs held, most of a rank | T_min | energy at T_min of "
      "merak-1f1b | 5 % later | 20 % later | largest gap |\n|---|---|---|---|---|---|---|---|\n");
  for (const int microbatches : {12, 24, 96}) print_rows(kGpt3OnA100, microbatches);
  return 0;
}

}  // namespace
}  // namespace lowgear::bench

int main() { return lowgear::bench::run(); }

/// Profiling few clocks: how well the others are predicted from 4, 5 and 6 of the given profiles' clocks, and what
/// plans made from the predictions are worth when they are replayed on all measurements.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "measurement.h"
#include "pipelines.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/simulator/op_costs.h"
#include "planning/simulator/replay.h"

namespace lowgear::bench {
namespace {

constexpr double kReachMedianPct = 2;
constexpr double kReachP95Pct = 5;
constexpr double kReachPlanPct = 0.5;
constexpr int kReachClocks = 6;
constexpr int kPlans = 20;

profile::StageProfile at_clocks(const profile::StageProfile& profile, std::span<const int> clocks_mhz) {
  profile::StageProfile part(profile.stages());
  for (int stage = 0; stage < profile.stages(); ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      for (const int clock_mhz : clocks_mhz) part.add(stage, kind, profile.at_clock(stage, kind, clock_mhz));
    }
  }
  return part;
}

std::vector<int> all_clocks(const profile::StageProfile& profile) {
  std::vector<int> clocks_mhz;
  for (const profile::Measurement& row : profile.measurements(0, OpKind::forward)) clocks_mhz.push_back(row.clock_mhz);
  return clocks_mhz;
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

/// Errors of held-out rows, in per cent.
struct Errors {
  std::vector<double> time_pct;
  std::vector<double> energy_pct;
  int within_time = 0;  ///< rows whose error is at most 1.96 standard errors
  int within_energy = 0;

  [[nodiscard]] double time(double share) const { return quantile(time_pct, share); }
  [[nodiscard]] double energy(double share) const { return quantile(energy_pct, share); }
  [[nodiscard]] bool reached() const {
    return std::max(time(0.5), energy(0.5)) <= kReachMedianPct && std::max(time(0.95), energy(0.95)) <= kReachP95Pct;
  }
};

Errors errors_of(const profile::FewClockFit& fit, const profile::StageProfile& truth) {
  constexpr double kNormal95 = 1.96;
  Errors errors;
  for (const profile::FilledRow& row : fit.rows) {
    if (row.origin == profile::RowOrigin::measured) continue;
    const profile::Measurement& measured = truth.at_clock(row.stage, row.kind, row.value.clock_mhz);
    const double time_s = std::abs(row.value.time_s - measured.time_s);
    const double energy_j = std::abs(row.value.energy_j - measured.energy_j);
    errors.time_pct.push_back(100 * time_s / measured.time_s);
    errors.energy_pct.push_back(100 * energy_j / measured.energy_j);
    errors.within_time += time_s <= kNormal95 * row.time_error_s ? 1 : 0;
    errors.within_energy += energy_j <= kNormal95 * row.energy_error_j ? 1 : 0;
  }
  return errors;
}

/// Plans from predictions against plans from all measurements, both replayed on all measurements, deadline by deadline.
struct PlanDifference {
  Extent energy_pct;  ///< of the plan from predictions over the other
  Extent late_pct;    ///< its replayed time over the deadline
};

PlanDifference compare_plans(const Pipeline& truth, const profile::StageProfile& predicted) {
  planner::PipelinePlanner from_all(truth.schedule(), truth.profile(), truth.blocking_power_w(), {});
  planner::PipelinePlanner from_few(truth.schedule(), predicted, truth.blocking_power_w(), {});
  PlanDifference difference;
  const double fastest_s = std::max(from_all.fastest_s(), from_few.fastest_s());
  for (int i = 0; i < kPlans; ++i) {
    const double deadline_s = fastest_s + (from_all.slowest_s() - fastest_s) * i / (kPlans - 1);
    const plan::Plan reference = from_all.plan(deadline_s);
    const std::vector<int> clocks_mhz = clocks_for(from_few.plan(deadline_s), truth.dag());
    const simulator::Timeline replayed = simulator::replay(
        truth.dag(), simulator::costs_at_clocks(truth.dag(), truth.profile(), clocks_mhz), truth.blocking_power_w());
    difference.energy_pct.add(100 * (replayed.energy_j_total / reference.energy_j - 1));
    difference.late_pct.add(100 * (replayed.time_s / deadline_s - 1));
  }
  return difference;
}

void study(const GivenProfile& given, int count) {
  const profile::StageProfile profile = given.read();
  const std::vector<int> supported = all_clocks(profile);
  const std::vector<int> chosen = profile::choose_clocks(supported, supported.back(), supported.front(), count);
  const profile::FewClockFit fit = fit_few_clocks(at_clocks(profile, chosen), supported);
  const Errors errors = errors_of(fit, profile);
  const auto rows = static_cast<double>(errors.time_pct.size());
  fmt::print("| {} | {} | {:.2f} / {:.2f} / {:.2f} % | {:.2f} / {:.2f} / {:.2f} % | {:.0f} % | {:.0f} % |", given.name,
             fmt::join(chosen, " "), errors.time(0.5), errors.time(0.95), errors.time(1), errors.energy(0.5),
             errors.energy(0.95), errors.energy(1), 100 * errors.within_time / rows, 100 * errors.within_energy / rows);
  double worst_pct = 0;
  for (const int microbatches : {12, 96}) {
    const PlanDifference plans = compare_plans(Pipeline(given, microbatches), fit.profile());
    worst_pct = std::max(worst_pct, plans.energy_pct.max());
    fmt::print(" {:+.2f} ({:+.2f} to {:+.2f}) % | {:+.2f} ({:+.2f} to {:+.2f}) % |", plans.energy_pct.mean(),
               plans.energy_pct.min(), plans.energy_pct.max(), plans.late_pct.mean(), plans.late_pct.min(),
               plans.late_pct.max());
  }
  fmt::print("\n");
  if (count != kReachClocks) return;
  print_target(fmt::format("{}, {} clocks: held-out time and energy, larger median and larger p95", given.name, count),
               fmt::format("{:.2f} %, {:.2f} %", std::max(errors.time(0.5), errors.energy(0.5)),
                           std::max(errors.time(0.95), errors.energy(0.95))),
               fmt::format("≤ {} %, ≤ {} %", kReachMedianPct, kReachP95Pct), errors.reached());
  print_target(fmt::format("{}, plans from {} clocks: most energy over plans from all", given.name, count),
               fmt::format("{:.2f} %", worst_pct), fmt::format("≤ {} %", kReachPlanPct), worst_pct <= kReachPlanPct);
}

}  // namespace
}  // namespace lowgear::bench

int main() {
  using namespace lowgear::bench;
  if (!require_given_data("few_clock_study")) return 0;
  fmt::print(
      "| profile | clocks | time error: median / p95 / largest | energy error | times within 1.96 standard errors | "
      "energies | M = 12: energy over that of plans from all clocks, mean (least to most) | time over the deadline | "
      "M = 96: energy | time |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const GivenProfile* given : kGivenProfiles) {
    for (const int count : {4, 5, 6}) study(*given, count);
  }
  return 0;
}

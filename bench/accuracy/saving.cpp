#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "estimating/estimator/gpt3_on_a100.h"
#include "estimating/estimator/power/power_model.h"
#include "pipelines.h"
#include "section.h"

namespace lowgear::bench {
namespace {

constexpr double kReachPoints = 3;
constexpr double kStandardLimitW = 400;
constexpr std::array kMicrobatches{12, 24, 48, 96};
/// Clocks at which the curves are compared.
constexpr std::array kClocksMhz{1410, 1350, 1290, 1230, 1170, 1110, 1050, 990, 930, 870};

/// Largest of a row of differences, with its sign lost.
class LargestPoints {
 public:
  void add(double estimated_pct, double measured_pct) {
    points_ = std::max(points_, std::abs(estimated_pct - measured_pct));
  }
  [[nodiscard]] AccuracyTarget target(std::string check) const {
    return {std::move(check), fmt::format("{:.2f} points", points_), fmt::format("≤ {} points", kReachPoints),
            points_ <= kReachPoints};
  }

 private:
  double points_ = 0;
};

std::string cell(double estimated_pct, double measured_pct) {
  return fmt::format("{:.2f} ({:+.2f})", estimated_pct, estimated_pct - measured_pct);
}

/// The work of a forward of a stage in the middle, at the time that was measured.
estimator::WorkCost measured_forward(const estimator::TrainingJob& job, const profile::StageProfile& measured) {
  const estimator::RooflineCosts operators(job.gpu);
  const estimator::LinkCosts links(job.cluster);
  const estimator::WorkCost forward = estimate_iteration(job, {operators, links}).stages[1].forward;
  return (measured.at_max_clock(1, OpKind::forward).time_s / forward.time_s()) * forward;
}

/// Time and energy by clock, both relative to the highest: the shape that savings come from.
std::string curve_table(const profile::StageProfile& measured) {
  const estimator::TrainingJob job = estimator::gpt3_on_a100(12);
  const estimator::WorkEnergy energy(job.gpu, measured_forward(job, measured));
  const estimator::TimedEnergy estimated_full = energy.at_clock(job.gpu.clocks.max_mhz);
  const profile::Measurement& measured_full = measured.at_max_clock(1, OpKind::forward);
  std::string table =
      "\n| MHz | time, measured | estimated | energy, measured | estimated | W, measured | estimated |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const int clock_mhz : kClocksMhz) {
    const profile::Measurement& at_clock = measured.at_clock(1, OpKind::forward, clock_mhz);
    const estimator::TimedEnergy estimated = energy.at_clock(clock_mhz);
    table += fmt::format("| {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.0f} | {:.0f} |\n", clock_mhz,
                         at_clock.time_s / measured_full.time_s, estimated.time_s / estimated_full.time_s,
                         at_clock.energy_j / measured_full.energy_j, estimated.energy_j / estimated_full.energy_j,
                         at_clock.energy_j / at_clock.time_s, estimated.power_w());
  }
  return table;
}

/// How much longer than the others the last stage takes.
std::string last_stage_text(const profile::StageProfile& measured) {
  const estimator::TrainingJob job = estimator::gpt3_on_a100(kMicrobatches.front());
  const estimator::RooflineCosts operators(job.gpu);
  const estimator::LinkCosts links(job.cluster);
  const std::vector<estimator::StageEstimate> stages = estimate_iteration(job, {operators, links}).stages;
  const int last = measured.stages() - 1;
  const auto longer_pct = [](double of_last, double of_others) { return 100 * (of_last / of_others - 1); };
  const auto measured_pct = [&](OpKind kind) {
    return longer_pct(measured.at_max_clock(last, kind).time_s, measured.at_max_clock(1, kind).time_s);
  };
  return fmt::format(
      "\nThe last stage takes longer than the others by {:.1f} % forward and {:.1f} % backward as measured, {:.1f} % "
      "and "
      "{:.1f} % as estimated.\n",
      measured_pct(OpKind::forward), measured_pct(OpKind::backward),
      longer_pct(stages.back().forward.time_s(), stages[1].forward.time_s()),
      longer_pct(stages.back().backward.time_s(), stages[1].backward.time_s()));
}

}  // namespace

AccuracySection saving_section() {
  AccuracySection section;
  section.markdown =
      "## Saving of a plan\n\nGPT-3 175B on A100 SXM, eight stages, tp 8 (artifact of Perseus, SOSP'24): saving of a "
      "plan on the measured stage profile against full clocks, and of the plan on the estimated profile, in per cent "
      "of energy (difference in points). Nothing is fitted on this profile: the power model rests on the "
      "artifact's gpt3-xl runs on A100 PCIe and on its Bloom on A40 (`src/estimating/power/gpu_table.cpp`). "
      "Its GPUs draw 475 "
      "W at full clocks, so a power limit of 500 W is assumed, that of A100s with custom cooling; the last columns "
      "assume the usual 400 W.\n";
  if (!given_data_present()) {
    section.markdown += "\nNOT CHECKED: the profile is not in ../shared/data/perseus.\n";
    return section;
  }
  const profile::StageProfile measured = kGpt3OnA100.read();
  section.markdown +=
      "\n| microbatches | least energy, measured | estimated | no later, measured | estimated | with a split loss | "
      "estimated, at measured times | least energy, 400 W | no later, 400 W |\n|---|---|---|---|---|---|---|---|---|\n";
  LargestPoints least_energy;
  LargestPoints no_later;
  LargestPoints power_alone;
  for (const int microbatches : kMicrobatches) {
    const estimator::TrainingJob job = estimator::gpt3_on_a100(microbatches);
    estimator::TrainingJob split_loss = job;
    split_loss.stack.loss = estimator::LossKind::split;
    estimator::TrainingJob standard = job;
    standard.gpu.power.limit_w = kStandardLimitW;
    const estimator::PlannedSaving real = estimator::saving_on(measured, estimator::kA100BlockingW, microbatches);
    const estimator::PlannedSaving estimated = saving_of_estimate(job);
    const estimator::PlannedSaving at_times = saving_at_measured_times(job, measured);
    const estimator::PlannedSaving at_standard = saving_of_estimate(standard);
    section.markdown += fmt::format("| {} | {:.2f} | {} | {:.2f} | {} | {} | {} | {} | {} |\n", microbatches,
                                    real.least_energy_pct, cell(estimated.least_energy_pct, real.least_energy_pct),
                                    real.no_later_pct, cell(estimated.no_later_pct, real.no_later_pct),
                                    cell(saving_of_estimate(split_loss).no_later_pct, real.no_later_pct),
                                    cell(at_times.no_later_pct, real.no_later_pct),
                                    cell(at_standard.least_energy_pct, real.least_energy_pct),
                                    cell(at_standard.no_later_pct, real.no_later_pct));
    least_energy.add(estimated.least_energy_pct, real.least_energy_pct);
    no_later.add(estimated.no_later_pct, real.no_later_pct);
    power_alone.add(at_times.no_later_pct, real.no_later_pct);
  }
  section.markdown +=
      "\n*At measured times* combines the measured times at full clocks with the estimated power model. The remaining "
      "difference to *estimated* is the additional time of the last stage (below the table of clocks): it gives the "
      "other stages the slack that saves energy without finishing later. The estimate gathers all logits on every rank "
      "and "
      "computes the loss whole, as the artifact's framework (Merak) does in its public code, with the kernels of "
      "Hugging "
      "Face transformers; *with a split loss*, the loss is divided among tp ranks as in Megatron.\n";
  section.markdown += curve_table(measured);
  section.markdown += last_stage_text(measured);
  section.targets = {least_energy.target("saving of the plan of least energy, A100 GPT-3 175B"),
                     no_later.target("saving of the plan that is no later, A100 GPT-3 175B"),
                     power_alone.target("the same at measured times (power model alone)")};
  return section;
}

}  // namespace lowgear::bench

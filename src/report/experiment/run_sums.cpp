#include "report/experiment/run_sums.h"

#include <algorithm>
#include <span>

namespace lowgear::experiment {
namespace {

/// Sums of the same steps in another order differ by rounding.
constexpr double kRounding = 1e-9;

void add(RunSums& sums, const RunStep& step, double share = 1) {
  sums.work += share * step.work;
  sums.time_s += share * step.time_s;
  sums.energy_j += share * step.energy_j.value_or(0);
}

/// Over the last steps with `window` of work, weighted with it; one step at least.
std::optional<double> trailing_loss(std::span<const RunStep> steps, double window) {
  double work = 0;
  double sum = 0;
  for (auto step = steps.rbegin(); step != steps.rend() && (work == 0 || work + step->work <= window * (1 + kRounding));
       ++step) {
    if (!step->loss) return std::nullopt;
    work += step->work;
    sum += step->work * *step->loss;
  }
  return work > 0 ? std::optional(sum / work) : std::nullopt;
}

/// The mean loss after the last step before which `is_within` does not fail.
template <typename IsWithin>
std::optional<double> loss_within(const RunRecord& run, double window, IsWithin is_within) {
  RunSums sums;
  std::size_t steps = 0;
  for (const RunStep& step : run.steps) {
    add(sums, step);
    if (!is_within(sums)) break;
    ++steps;
  }
  return trailing_loss(std::span(run.steps).first(steps), window);
}

}  // namespace

RunSums all_sums(const RunRecord& run) {
  RunSums sums;
  for (const RunStep& step : run.steps) add(sums, step);
  return sums;
}

RunSums sums_at_work(const RunRecord& run, double work) {
  RunSums sums;
  for (const RunStep& step : run.steps) {
    const double share = std::min(1.0, (work - sums.work) / step.work);
    if (share <= kRounding) break;
    add(sums, step, share);
  }
  return sums;
}

RunSums mean_per_work(const RunRecord& run, int settling) {
  const int left_out = std::min(settling, static_cast<int>(run.steps.size()) - 1);
  RunSums sums;
  for (const RunStep& step : std::span(run.steps).subspan(static_cast<std::size_t>(left_out))) add(sums, step);
  return {.work = 1, .time_s = sums.time_s / sums.work, .energy_j = sums.energy_j / sums.work};
}

std::optional<double> loss_at_work(const RunRecord& run, double work, double window) {
  return loss_within(run, window, [=](const RunSums& sums) { return sums.work <= work * (1 + kRounding); });
}

std::optional<double> loss_at_energy(const RunRecord& run, double energy_j, double window) {
  return loss_within(run, window, [=](const RunSums& sums) { return sums.energy_j <= energy_j * (1 + kRounding); });
}

std::optional<double> held_out_loss_at_work(const RunRecord& run, double work) {
  RunSums sums;
  std::optional<double> last;
  for (const RunStep& step : run.steps) {
    add(sums, step);
    if (sums.work > work * (1 + kRounding)) break;
    if (step.held_out_loss) last = step.held_out_loss;
  }
  return last;
}

std::optional<RunSums> sums_at_loss(const RunRecord& run, double loss, double window) {
  RunSums sums;
  std::size_t first = 0;  // of the steps in the window
  double work = 0;
  double weighted = 0;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const RunStep& step = run.steps[i];
    if (!step.loss) return std::nullopt;
    add(sums, step);
    work += step.work;
    weighted += step.work * *step.loss;
    for (; first < i && work > window * (1 + kRounding); ++first) {
      work -= run.steps[first].work;
      weighted -= run.steps[first].work * *run.steps[first].loss;
    }
    if (weighted / work <= loss) return sums;
  }
  return std::nullopt;
}

}  // namespace lowgear::experiment

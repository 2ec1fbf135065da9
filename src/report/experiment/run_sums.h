#pragma once

#include <optional>

#include "report/experiment/run_record.h"

namespace lowgear::experiment {

/// Sums over the first steps of a run.
struct RunSums {
  double work = 0;
  double time_s = 0;
  double energy_j = 0;
};

[[nodiscard]] RunSums all_sums(const RunRecord& run);
/// Sums up to this amount of work, which the run has done; the step in which it is reached counts in proportion.
[[nodiscard]] RunSums sums_at_work(const RunRecord& run, double work);

/// Energy and time per unit of work, without the first `settling` steps unless there are no others.
[[nodiscard]] RunSums mean_per_work(const RunRecord& run, int settling);

/// Mean loss over the last `window` of the work that was done in whole steps within `work` (or with `energy_j`), one
/// step at least. Empty when the first step has more, or a step has no loss.
[[nodiscard]] std::optional<double> loss_at_work(const RunRecord& run, double work, double window);
[[nodiscard]] std::optional<double> loss_at_energy(const RunRecord& run, double energy_j, double window);
/// The held-out loss as measured last after whole steps within `work`; empty when there was none.
[[nodiscard]] std::optional<double> held_out_loss_at_work(const RunRecord& run, double work);
/// Sums when that mean loss is this one or lower for the first time; empty when it never is.
[[nodiscard]] std::optional<RunSums> sums_at_loss(const RunRecord& run, double loss, double window);

}  // namespace lowgear::experiment

#include "estimating/estimator/iteration/envpipe_estimate.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "estimating/estimator/memory/activations_that_fit.h"
#include "estimating/estimator/work/stage_work.h"

namespace lowgear::estimator {

namespace {

/// From each stage to the next one; empty where messages run concurrently with computation, or there are none.
std::vector<double> messages_s(const JobEstimate& estimate) {
  std::vector<double> times_s;
  if (estimate.job.overlap.pipeline || estimate.job.parallel.pp == 1) return times_s;
  for (std::size_t stage = 0; stage + 1 < estimate.iteration.stages.size(); ++stage) {
    double& time_s = times_s.emplace_back(0);
    for (const CostItem& item : estimate.iteration.stages[stage].forward_items) {
      if (item.name == name(WorkPart::pipeline)) time_s += item.cost.time_s();
    }
  }
  return times_s;
}

}  // namespace

void complete_from(const JobEstimate& estimate, planner::EnvPipeOptions& options) {
  const TrainingJob& job = estimate.job;
  const std::vector<int> fit = activations_that_fit(job, estimate.memory);
  options.extra_activations.clear();
  for (std::size_t rank = 0; rank < fit.size(); ++rank) {
    const int held = std::min(job.parallel.pp - static_cast<int>(rank), static_cast<int>(job.microbatches()));
    options.extra_activations.push_back(fit[rank] - held);
  }
  options.transfer_by_link_s = messages_s(estimate);
}

profile::StageColumns emitted_columns(const JobEstimate& estimate) {
  const TrainingJob& job = estimate.job;
  profile::StageColumns columns{.activation_bytes = {}, .transfer_s = messages_s(estimate)};
  if (job.schedule == "1f1b" && job.parallel.virtual_stages == 1) {
    columns.activation_bytes = activation_bytes_of_ranks(job, estimate.memory);
  }
  return columns;
}

}  // namespace lowgear::estimator

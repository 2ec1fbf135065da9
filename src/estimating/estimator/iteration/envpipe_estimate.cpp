#include "estimating/estimator/iteration/envpipe_estimate.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "estimating/estimator/memory/activations_that_fit.h"
#include "estimating/estimator/work/stage_work.h"

namespace lowgear::estimator {

void complete_from(const JobEstimate& estimate, planner::EnvPipeOptions& options) {
  const TrainingJob& job = estimate.job;
  const std::vector<int> fit = activations_that_fit(job, estimate.memory);
  options.extra_activations.clear();
  for (std::size_t rank = 0; rank < fit.size(); ++rank) {
    const int held = std::min(job.parallel.pp - static_cast<int>(rank), static_cast<int>(job.microbatches()));
    options.extra_activations.push_back(fit[rank] - held);
  }
  if (job.overlap.pipeline) return;
  double longest_s = 0;
  for (const StageEstimate& stage : estimate.iteration.stages) {
    for (const CostItem& item : stage.forward_items) {
      if (item.name == name(WorkPart::pipeline)) longest_s = std::max(longest_s, item.cost.time_s());
    }
  }
  options.transfer_s = longest_s;
}

}  // namespace lowgear::estimator

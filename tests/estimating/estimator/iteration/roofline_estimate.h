#pragma once

#include <vector>

#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/iteration/iteration_estimate.h"

namespace lowgear::estimator {

/// The job's iteration, with costs of the roofline model.
inline IterationEstimate estimate(const TrainingJob& job) {
  return estimate_iteration(job, {RooflineCosts(job.gpu), LinkCosts(job.cluster)});
}

inline double time_s_of(const std::vector<CostItem>& items) {
  double time_s = 0;
  for (const CostItem& item : items) time_s += item.cost.time_s();
  return time_s;
}

}  // namespace lowgear::estimator

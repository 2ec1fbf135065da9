#include "estimating/estimator/iteration/job_estimate.h"

#include <string>
#include <utility>

namespace lowgear::estimator {

JobEstimate estimate_job(TrainingJob job, const SampleSet& samples) {
  const JobCosts costs(job, samples);
  JobEstimate result{.job = std::move(job), .memory = {}, .overflow = {}, .iteration = {}};
  result.memory = estimate_memory(result.job);
  result.overflow = explain_overflow(result.job, result.memory);
  result.iteration = estimate_iteration(result.job, costs.sources());
  for (std::string& note : costs.notes()) result.iteration.notes.push_back(std::move(note));
  return result;
}

}  // namespace lowgear::estimator

#include "estimating/estimator/iteration/planned_estimate.h"

#include <fmt/format.h>

#include "base/core/error.h"
#include "planning/planner/policies/policy.h"
#include "planning/workflow/planning_memory.h"

namespace lowgear::estimator {
namespace {

void add_asked_row(PlannedEstimate& planned, PlannedJob& job, const EstimatePlanOptions& options) {
  const auto deadline_s = single_deadline_s(options.deadline, job.fastest_s(), job.slowest_s());
  if (options.policy != planner::kLowgearPolicy) {
    const auto policy = planner::make_policy(options.policy);
    const PolicyFigures answer = job.plan_with(*policy, deadline_s);
    planned.rows.push_back({options.policy, "replayed", answer.figures});
    planned.note = answer.note;
    return;
  }
  if (!deadline_s) return;
  if (*deadline_s < job.fastest_s()) {
    throw InputError(fmt::format("an iteration of {:.4g} s is not possible: at full clocks it takes {:.4g} s",
                                 *deadline_s, job.fastest_s()));
  }
  planned.rows.push_back({fmt::format("within {:.4g} s", *deadline_s), "planned", job.plan(*deadline_s)});
}

}  // namespace

PlannedEstimate plan_estimate(const JobEstimate& estimate, const EstimatePlanOptions& options,
                              std::optional<std::uint64_t> available_bytes, Progress& progress) {
  const TrainingJob& job = estimate.job;
  workflow::require_planning_memory(job.parallel.pp, static_cast<int>(job.microbatches()), job.parallel.virtual_stages,
                                    available_bytes);
  PlannedJob planner(job, estimate.iteration, kEstimatePlannerOptions, &progress);
  PlannedEstimate planned;
  planned.frontier = planner.frontier();
  planned.rows.push_back({"full clocks", "estimated", planner.full_clocks()});
  planned.rows.push_back({"no later", "planned", planner.plan_in_time()});
  add_asked_row(planned, planner, options);
  planned.rows.push_back({"least energy", "planned", planner.plan(planner.slowest_s())});
  return planned;
}

}  // namespace lowgear::estimator

#include "report/experiment/policy_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "estimating/estimator/iteration/envpipe_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "planning/planner/policies/policy.h"

namespace lowgear::experiment {
namespace {

const ReplayedArm& arm_named(const std::vector<ReplayedArm>& arms, const std::string& name) {
  return *std::ranges::find(arms, name, &ReplayedArm::name);
}

ReplayedArm replay_arm(const PolicyArm& arm, const estimator::JobEstimate& estimate, estimator::PlannedJob& job,
                       const std::vector<ReplayedArm>& before) {
  const double time_s = arm.within.empty() ? job.full_clocks().time_s : arm_named(before, arm.within).time_s;
  estimator::PolicyFigures figures = [&] {
    if (arm.policy == planner::kLowgearPolicy) {
      const auto order = arm.in_order_of.empty() ? std::nullopt : arm_named(before, arm.in_order_of).order;
      return order ? job.replayed_plan(time_s, *order) : job.replayed_plan(time_s);
    }
    planner::PolicySettings settings;
    settings.envpipe = arm.envpipe;
    complete_from(estimate, settings.envpipe);
    const auto policy = make_policy(arm.policy, settings);
    return job.plan_with(*policy, arm.within.empty() ? std::nullopt : std::optional(time_s));
  }();
  return {arm.name, figures.figures.time_s, figures.figures.energy_j, std::move(figures.note),
          std::move(figures.order)};
}

}  // namespace

ReplayedJob replay_policies(const PolicyExperiment& experiment, const std::string& name,
                            const estimator::JobEstimate& estimate, Progress* progress) {
  const estimator::TrainingJob& job = estimate.job;
  ReplayedJob result{.name = name,
                     .gpu = job.gpu.name,
                     .gpus = job.parallel.gpus(),
                     .sequences = job.batch.global,
                     .microbatches = job.microbatches(),
                     .baseline = {},
                     .arms = {},
                     .notes = estimate.iteration.notes};
  estimator::PlannedJob planned(job, estimate.iteration, estimator::kEstimatePlannerOptions, progress);
  for (const PolicyArm& arm : experiment.arms) {
    try {
      result.arms.push_back(replay_arm(arm, estimate, planned, result.arms));
    } catch (const InputError& error) {
      throw InputError(fmt::format("job {}, arm {}: {}", quote(name), quote(arm.name), error.what()));
    }
  }
  result.baseline = arm_named(result.arms, experiment.baseline);
  return result;
}

}  // namespace lowgear::experiment

#pragma once

#include <algorithm>
#include <vector>

#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "estimating/estimator/job/training_job.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

/// The workload whose measured stage profile validates the estimated one: GPT-3 175B on A100 SXM, eight stages, tp 8
/// (artifact of Perseus, SOSP'24). Nothing in the project is fitted on that profile.
///
/// What the profile does not say is taken as: 2048 tokens, one sequence a microbatch, kernels of unfused attention, no
/// recomputation (backwards take 1.85 times the forwards), and the loss on gathered logits: Merak, the framework of the
/// artifact, divides the output matrix by columns and gathers what they give (merak_trainer.py, `parallel_vocab`). Its
/// GPUs draw 475 W at full clocks, so they are of the kind with a limit of 500 W that NVIDIA's data sheet names beside
/// the 400 W of others.
namespace lowgear::estimator {

inline constexpr double kA100BlockingW = 83.64;
inline constexpr double kProfiledLimitW = 500;

inline TrainingJob gpt3_on_a100(int microbatches) {
  TrainingJob job;
  job.model = named_model("gpt3-175b");
  job.gpu = named_gpu("a100-80gb-sxm");
  job.gpu.power.limit_w = kProfiledLimitW;
  job.cluster = default_cluster(job.gpu);
  job.parallel = {.dp = 1, .tp = 8, .pp = 8};
  job.batch = {microbatches, 1, 2048};
  job.attention = AttentionKind::unfused;
  job.zero = 0;
  job.stack.loss = LossKind::gathered;
  job.overlap.pipeline = true;  // messages are instructions of their own there, and not in the profile
  return job;
}

/// Shares of energy, in per cent, that clocks save against full clocks.
struct PlannedSaving {
  double no_later_pct = 0;      ///< at the time of full clocks
  double least_energy_pct = 0;  ///< at T*
};

inline PlannedSaving saving_on(const profile::StageProfile& profile, double blocking_w, int microbatches) {
  const schedule::Schedule schedule = schedule::one_f_one_b_schedule(profile.stages(), microbatches);
  const std::vector<double> blocking(static_cast<std::size_t>(profile.stages()), blocking_w);
  planner::PipelinePlanner planner(schedule, profile, blocking, {});
  std::vector<simulator::OpCost> costs;
  for (const schedule::ComputeOp& op : planner.dag().ops) {
    const profile::Measurement& fastest = profile.at_max_clock(op.stage, op.kind);
    costs.push_back({fastest.time_s, fastest.energy_j});
  }
  const simulator::Timeline full = replay(planner.dag(), costs, blocking);
  const auto saved = [&](double deadline_s) {
    const double within_s = std::clamp(deadline_s, planner.fastest_s(), planner.slowest_s());
    return 100 * (1 - planner.plan(within_s).energy_j / full.energy_j_total);
  };
  return {saved(full.time_s), saved(planner.slowest_s())};
}

/// Of the pipeline alone, as the measured profile is.
inline PlannedSaving saving_of_estimate(const TrainingJob& job) {
  const RooflineCosts operators(job.gpu);
  const LinkCosts links(job.cluster);
  const IterationEstimate estimate = estimate_iteration(job, {operators, links});
  return saving_on(estimated_pipeline(job, estimate).profile, job.gpu.power.blocking_w,
                   static_cast<int>(job.microbatches()));
}

/// With the measured times at full clocks in place of the estimated ones, divided as the estimate divides them: what is
/// left is the power model alone.
inline PlannedSaving saving_at_measured_times(const TrainingJob& job, const profile::StageProfile& measured) {
  const RooflineCosts operators(job.gpu);
  const LinkCosts links(job.cluster);
  IterationEstimate estimate = estimate_iteration(job, {operators, links});
  for (int stage = 0; stage < measured.stages(); ++stage) {
    StageEstimate& costs = estimate.stages[static_cast<std::size_t>(stage)];
    costs.forward = (measured.at_max_clock(stage, OpKind::forward).time_s / costs.forward.time_s()) * costs.forward;
    costs.backward = (measured.at_max_clock(stage, OpKind::backward).time_s / costs.backward.time_s()) * costs.backward;
    costs.weight_gradient = {};
  }
  return saving_on(estimated_pipeline(job, estimate).profile, job.gpu.power.blocking_w,
                   static_cast<int>(job.microbatches()));
}

}  // namespace lowgear::estimator

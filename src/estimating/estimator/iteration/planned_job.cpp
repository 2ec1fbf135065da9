#include "estimating/estimator/iteration/planned_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimating/estimator/iteration/emitted_profile.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/op_costs.h"
#include "planning/simulator/replay.h"

namespace lowgear::estimator {
namespace {

/// All ops at the highest clock, replayed on the planner's graph.
simulator::Timeline replay_at_full_clocks(const EstimatedPipeline& pipeline, const schedule::PipelineDag& dag) {
  std::vector<simulator::OpCost> costs;
  costs.reserve(dag.ops.size());
  for (const schedule::ComputeOp& op : dag.ops) {
    const profile::Measurement& fastest = pipeline.profile.at_max_clock(op.stage, op.kind);
    costs.push_back({fastest.time_s, fastest.energy_j});
  }
  return replay(dag, costs, pipeline.blocking_power_w);
}

}  // namespace

EstimatedPipeline estimated_pipeline(const TrainingJob& job, const IterationEstimate& estimate) {
  const schedule::ScheduleRequest request{.name = job.schedule,
                                          .ranks = job.parallel.pp,
                                          .microbatches = static_cast<int>(job.microbatches()),
                                          .chunks = job.parallel.virtual_stages,
                                          .envpipe_stages = {}};
  return {.profile = emitted_profile(job.gpu, estimate),
          .schedule = make_schedule(request),
          .blocking_power_w = std::vector<double>(static_cast<std::size_t>(job.parallel.pp), job.gpu.power.blocking_w)};
}

JobScale::JobScale(const TrainingJob& job, const IterationEstimate& estimate, double replayed_s)
    : rest_s_(estimate.time_s - replayed_s),
      rest_j_(job.parallel.pp * (rest_energy(job.gpu, estimate).total_j() +
                                 job.gpu.power.blocking_w * std::max(0.0, estimate.pipeline_s - replayed_s))),
      gpus_per_rank_(job.parallel.tp * job.parallel.cp * job.parallel.dp) {}

JobFigures JobScale::job(double pipeline_s, double pipeline_j) const {
  return {pipeline_s + rest_s_, gpus_per_rank_ * (pipeline_j + rest_j_)};
}

PlannedJob::PlannedJob(const TrainingJob& job, const IterationEstimate& estimate,
                       const planner::PlannerOptions& options, Progress* progress)
    : PlannedJob(job, estimate, estimated_pipeline(job, estimate), options, progress) {}

PlannedJob::PlannedJob(const TrainingJob& job, const IterationEstimate& estimate, EstimatedPipeline pipeline,
                       const planner::PlannerOptions& options, Progress* progress)
    : pipeline_(std::move(pipeline)),
      options_(options),
      planner_(pipeline_.schedule, pipeline_.profile, pipeline_.blocking_power_w, options, {}, progress),
      baseline_(replay_at_full_clocks(pipeline_, planner_.dag())),
      scale_(job, estimate, baseline_.time_s),
      full_clocks_(scale_.job(baseline_.time_s, baseline_.energy_j_total)) {}

std::vector<JobFigures> PlannedJob::frontier() const {
  std::vector<JobFigures> points;
  for (const planner::FrontierVertex& vertex : planner_.frontier().vertices()) {
    points.push_back(scale_.job(s_from_ps(vertex.time_ps), planner_.frontier().energy_j(vertex)));
  }
  return points;
}

JobFigures PlannedJob::plan(double time_s) {
  const double deadline_s = std::clamp(scale_.pipeline_s(time_s), planner_.fastest_s(), planner_.slowest_s());
  const plan::Plan plan = planner_.plan(deadline_s);
  return scale_.job(plan.time_s, plan.energy_j);
}

PolicyFigures PlannedJob::plan_with(const planner::Policy& policy, std::optional<double> time_s) const {
  const planner::PlanningProblem problem{&pipeline_.schedule, &planner_.dag(), &pipeline_.profile,
                                         pipeline_.blocking_power_w};
  std::optional<double> deadline_s;
  if (time_s) deadline_s = scale_.pipeline_s(*time_s);
  planner::PolicyPlan answer = policy.plan(problem, deadline_s);
  const schedule::PipelineDag dag = answer.schedule ? build_dag(*answer.schedule) : planner_.dag();
  return {replayed(dag, answer.choices()), answer.note, std::move(answer.schedule)};
}

PolicyFigures PlannedJob::replayed_plan(double time_s) { return replayed_plan(time_s, planner_); }

PolicyFigures PlannedJob::replayed_plan(double time_s, const schedule::Schedule& order) const {
  planner::PipelinePlanner planner(order, pipeline_.profile, pipeline_.blocking_power_w, options_);
  return replayed_plan(time_s, planner);
}

PolicyFigures PlannedJob::replayed_plan(double time_s, planner::PipelinePlanner& planner) const {
  const double deadline_s = std::clamp(scale_.pipeline_s(time_s), planner.fastest_s(), planner.slowest_s());
  const plan::Plan plan = planner.plan(deadline_s);
  const plan::OpChoices choices = choices_for(plan, planner.dag());
  return {replayed(planner.dag(), choices),
          fmt::format("at most {:.2f} % above the least energy in its order", plan.gap_pct().value_or(0))};
}

JobFigures PlannedJob::replayed(const schedule::PipelineDag& dag, const plan::OpChoicesView& choices) const {
  const simulator::Timeline timeline =
      simulator::replay(dag, simulator::costs_at_clocks(dag, pipeline_.profile, choices), pipeline_.blocking_power_w);
  return scale_.job(timeline.time_s, timeline.energy_j_total);
}

double PlannedJob::fastest_s() const { return scale_.job(planner_.fastest_s(), 0).time_s; }
double PlannedJob::slowest_s() const { return scale_.job(planner_.slowest_s(), 0).time_s; }

}  // namespace lowgear::estimator

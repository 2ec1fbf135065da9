#include "estimating/estimator/iteration/planned_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "estimating/estimator/power/power_model.h"
#include "planning/api/profile_fitting.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/policy.h"
#include "planning/schedule/generators.h"
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
      full_clocks_(scale_.job(baseline_.time_s, baseline_.energy_j_total)) {
  for (const power::GpuPower& power : job.gpu.power_one_error_off) {
    TrainingJob off = job;
    off.gpu.power = power;
    one_error_off_.push_back({estimated_pipeline(off, estimate), JobScale(off, estimate, baseline_.time_s)});
  }
  full_clocks_.energy_error_j = energy_error_j(
      planner::max_clocks_mhz({&pipeline_.schedule, &planner_.dag(), &pipeline_.profile, pipeline_.blocking_power_w}));
}

std::vector<JobFigures> PlannedJob::frontier() const {
  std::vector<JobFigures> points;
  for (const planner::FrontierVertex& vertex : planner_.frontier().vertices()) {
    points.push_back(scale_.job(s_from_ps(vertex.time_ps), planner_.frontier().energy_j(vertex)));
  }
  return points;
}

plan::Plan PlannedJob::plan_within(double time_s) {
  return planner_.plan(std::clamp(scale_.pipeline_s(time_s), planner_.fastest_s(), planner_.slowest_s()));
}

JobFigures PlannedJob::plan(double time_s) {
  const plan::Plan plan = plan_within(time_s);
  JobFigures figures = scale_.job(plan.time_s, plan.energy_j);
  figures.energy_error_j = energy_error_j(choices_for(plan, planner_.dag()));
  return figures;
}

std::optional<double> PlannedJob::energy_error_j(const plan::OpChoicesView& choices) const {
  if (one_error_off_.empty()) return std::nullopt;
  const double energy_j = replayed(planner_.dag(), choices).energy_j;
  double squares = 0;
  for (const auto& [pipeline, scale] : one_error_off_) {
    const simulator::Timeline timeline =
        simulator::replay(planner_.dag(), simulator::costs_at_clocks(planner_.dag(), pipeline.profile, choices),
                          pipeline.blocking_power_w);
    squares += std::pow(scale.job(timeline.time_s, timeline.energy_j_total).energy_j - energy_j, 2);
  }
  return std::sqrt(squares);
}

std::vector<int> PlannedJob::clocks_mhz(double time_s) {
  return choices_for(plan_within(time_s), planner_.dag()).clocks_mhz;
}

double PlannedJob::least_energy_j(double time_s) const {
  const planner::Frontier& frontier = planner_.frontier();
  const TimePs within_ps =
      std::clamp(ps_from_s(scale_.pipeline_s(time_s)), frontier.fastest_ps(), frontier.slowest_ps());
  return scale_.job(s_from_ps(within_ps), frontier.lower_bound_j_at(within_ps)).energy_j;
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

namespace {

/// Smallest time and energy in a profile, for an op that takes no time.
constexpr double kLeastTimeS = 1e-9;
constexpr double kLeastEnergyJ = 1e-9;

/// What is left of a backward without its weight gradient.
WorkCost input_gradient(const StageEstimate& costs) { return costs.backward + -1 * costs.weight_gradient; }

void add_rows(profile::StageProfile& profile, int stage, OpKind kind, const WorkEnergy& energy,
              std::span<const int> clocks_mhz) {
  for (const int clock_mhz : clocks_mhz) {
    const TimedEnergy taken = energy.at_clock(clock_mhz);
    profile.add(stage, kind, {clock_mhz, std::max(taken.time_s, kLeastTimeS), std::max(taken.energy_j, kLeastEnergyJ)});
  }
}

}  // namespace

std::vector<int> profiled_clocks_mhz(const power::ClockSteps& clocks) {
  const int lowest_mhz = std::max(clocks.min_mhz, clocks.max_mhz / 3);
  std::vector<int> clocks_mhz;
  for (int clock_mhz = clocks.max_mhz; clock_mhz >= lowest_mhz; clock_mhz -= clocks.step_mhz) {
    clocks_mhz.push_back(clock_mhz);
  }
  return clocks_mhz;
}

profile::StageProfile emitted_profile(const GpuModel& gpu, const IterationEstimate& estimate) {
  const std::vector<int> clocks_mhz = profiled_clocks_mhz(gpu.clocks);
  profile::StageProfile profile(static_cast<int>(estimate.stages.size()));
  for (int stage = 0; stage < profile.stages(); ++stage) {
    const StageEstimate& costs = estimate.stages[static_cast<std::size_t>(stage)];
    add_rows(profile, stage, OpKind::forward, WorkEnergy(gpu, costs.forward), clocks_mhz);
    add_rows(profile, stage, OpKind::backward, WorkEnergy(gpu, costs.backward), clocks_mhz);
    if (!(costs.weight_gradient.time_s() > 0)) continue;
    add_rows(profile, stage, OpKind::weight_gradient, WorkEnergy(gpu, costs.weight_gradient), clocks_mhz);
    add_rows(profile, stage, OpKind::input_gradient, WorkEnergy(gpu, input_gradient(costs)), clocks_mhz);
  }
  return profile;
}

std::map<std::pair<int, OpKind>, power::ClockShare> clock_shares(const GpuModel& gpu,
                                                                 const IterationEstimate& estimate) {
  std::map<std::pair<int, OpKind>, power::ClockShare> shares;
  for (int stage = 0; stage < static_cast<int>(estimate.stages.size()); ++stage) {
    const StageEstimate& costs = estimate.stages[static_cast<std::size_t>(stage)];
    const auto add = [&](OpKind kind, const WorkCost& work) {
      if (!(work.time_s() > 0)) return;
      shares[{stage, kind}] = {work.core_s / work.time_s(), WorkEnergy(gpu, work).sustained_clock_mhz()};
    };
    add(OpKind::forward, costs.forward);
    add(OpKind::backward, costs.backward);
    add(OpKind::weight_gradient, costs.weight_gradient);
    add(OpKind::input_gradient, input_gradient(costs));
  }
  return shares;
}

namespace {

void add_note(PlannedEstimate& planned, const std::string& note) {
  if (!planned.note.empty() && !note.empty()) planned.note += "; ";
  planned.note += note;
}

void add_asked_row(PlannedEstimate& planned, PlannedJob& job, const EstimatePlanOptions& options) {
  const auto deadline_s = single_deadline_s(options.deadline, job.fastest_s(), job.slowest_s());
  if (options.policy != planner::kLowgearPolicy) {
    const auto policy = options.policies.make(options.policy);
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
  add_note(planned, api::beyond_least_energy(deadline_s, job.slowest_s()).value_or(""));
}

}  // namespace

/// A saving by a lower voltage than any that was measured is less certain.
std::string curve_note(const GpuModel& gpu, std::string_view what, int lowest_clock_mhz) {
  const power::VoltageCurve& voltage = gpu.power.voltage;
  if (voltage.relative_v2(lowest_clock_mhz) >= voltage.relative_v2(voltage.measured_from_mhz())) return "";
  if (gpu.power.voltage_basis == power::Basis::assumed) return "the voltage curve of this GPU is assumed";
  std::string note = fmt::format("{} runs down to {} MHz; below {:.0f} MHz the voltage curve is extrapolated", what,
                                 lowest_clock_mhz, voltage.measured_from_mhz());
  const double table_from_mhz = voltage.points().front().clock_mhz;
  if (lowest_clock_mhz >= table_from_mhz) return note;
  return note + fmt::format(", and below {:.0f} MHz the voltage is taken as constant", table_from_mhz);
}

PlannedEstimate plan_estimate(const JobEstimate& estimate, const EstimatePlanOptions& options,
                              std::optional<std::uint64_t> available_bytes, Progress& progress) {
  const TrainingJob& job = estimate.job;
  api::require_planning_memory(job.parallel.pp, static_cast<int>(job.microbatches()), job.parallel.virtual_stages,
                               available_bytes);
  PlannedJob planner(job, estimate.iteration, kEstimatePlannerOptions, &progress);
  PlannedEstimate planned;
  planned.frontier = planner.frontier();
  planned.rows.push_back({"full clocks", "estimated", planner.full_clocks()});
  planned.rows.push_back({"no later", "planned", planner.plan_in_time()});
  add_asked_row(planned, planner, options);
  planned.rows.push_back({"least energy", "planned", planner.plan(planner.slowest_s())});
  const std::vector<int> clocks_mhz = planner.clocks_mhz(planner.slowest_s());
  add_note(planned, curve_note(job.gpu, "the plan of least energy", *std::ranges::min_element(clocks_mhz)));
  return planned;
}

}  // namespace lowgear::estimator

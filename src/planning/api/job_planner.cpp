#include "planning/api/job_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "base/core/error.h"
#include "base/core/units.h"
#include "planning/api/plan_replays.h"
#include "planning/api/power/plan_power.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/simulator/replay.h"

namespace lowgear::api {

namespace {

constexpr int kMaxReplicas = 65536;
constexpr double kMaxAllowancePct = 1000;

void check(const schedule::PipelineDag& dag, int replicas, const RankSlowdown& slowdown) {
  if (slowdown.replica < 0 || slowdown.replica >= replicas) {
    throw InputError(
        fmt::format("slowdown of replica {}: the job has replicas 0 to {}", slowdown.replica, replicas - 1));
  }
  if (slowdown.rank < 0 || slowdown.rank >= dag.ranks) {
    throw InputError(fmt::format("slowdown of rank {}: the pipeline has ranks 0 to {}", slowdown.rank, dag.ranks - 1));
  }
  if (!(slowdown.factor > 0) || !(slowdown.factor <= simulator::kMaxSlowdownFactor)) {
    throw InputError(fmt::format("slowdown by a factor of {}: it must be above 0 and at most {}", slowdown.factor,
                                 simulator::kMaxSlowdownFactor));
  }
}

/// Factor by rank of a replica.
using Factors = std::map<int, double>;

std::vector<simulator::StageSlowdown> stage_slowdowns(const schedule::PipelineDag& dag, const Factors& factors) {
  std::vector<simulator::StageSlowdown> slowdowns;
  for (const schedule::ComputeOp& op : dag.ops) {
    const auto found = factors.find(op.rank);
    if (found == factors.end()) continue;
    if (std::ranges::find(slowdowns, op.stage, &simulator::StageSlowdown::stage) == slowdowns.end()) {
      slowdowns.push_back({op.stage, found->second});
    }
  }
  std::ranges::sort(slowdowns, {}, &simulator::StageSlowdown::stage);
  return slowdowns;
}

double fastest_time_s(const schedule::PipelineDag& dag, const simulator::TimingGraph& graph,
                      const profile::StageProfile& profile) {
  std::vector<double> duration_s;
  for (const schedule::ComputeOp& op : dag.ops) {
    // at_max_clock says what is missing; noise or a power cap may make another clock the fastest.
    double time_s = profile.at_max_clock(op.stage, op.kind).time_s;
    for (const profile::Measurement& row : profile.measurements(op.stage, op.kind))
      time_s = std::min(time_s, row.time_s);
    duration_s.push_back(time_s);
  }
  std::vector<double> start_s(duration_s.size());
  return graph.start_times(duration_s, start_s);
}

}  // namespace

profile::StageProfile slowed_profile(const profile::StageProfile& profile,
                                     std::span<const simulator::StageSlowdown> slowdowns) {
  std::vector<double> factor(static_cast<std::size_t>(profile.stages()), 1.0);
  for (const simulator::StageSlowdown& slowdown : slowdowns) {
    if (slowdown.stage < 0 || slowdown.stage >= profile.stages()) {
      throw InputError(
          fmt::format("slowdown of stage {}: the profile has stages 0 to {}", slowdown.stage, profile.stages() - 1));
    }
    factor[static_cast<std::size_t>(slowdown.stage)] *= slowdown.factor;
  }
  profile::StageProfile slowed(profile.stages());
  for (const auto& [stage, kind, rows] : profile.ops()) {
    for (profile::Measurement row : rows) {
      row.time_s *= factor[static_cast<std::size_t>(stage)];
      row.energy_j *= factor[static_cast<std::size_t>(stage)];
      slowed.add(stage, kind, row);
    }
  }
  return slowed;
}

Replan replan(const schedule::PipelineDag& dag, const profile::StageProfile& profile, int replicas,
              std::span<const RankSlowdown> slowdowns, double allowed_slowdown_pct) {
  if (replicas < 1 || replicas > kMaxReplicas) {
    throw InputError(fmt::format("{} replicas: a job has 1 to {}", replicas, kMaxReplicas));
  }
  if (!(allowed_slowdown_pct >= 0) || !(allowed_slowdown_pct <= kMaxAllowancePct)) {
    throw InputError(
        fmt::format("allowed slowdown of {} %: it must be from 0 to {} %", allowed_slowdown_pct, kMaxAllowancePct));
  }
  std::map<int, Factors> slow_replicas;
  for (const RankSlowdown& slowdown : slowdowns) {
    check(dag, replicas, slowdown);
    slow_replicas[slowdown.replica].try_emplace(slowdown.rank, 1.0).first->second *= slowdown.factor;
  }
  std::map<Factors, std::vector<int>> groups;
  for (int replica = 0; replica < replicas; ++replica) {
    Factors factors;
    if (const auto found = slow_replicas.find(replica); found != slow_replicas.end()) {
      std::ranges::copy_if(found->second, std::inserter(factors, factors.end()),
                           [](const auto& entry) { return entry.second != 1; });
    }
    groups[factors].push_back(replica);
  }
  const simulator::TimingGraph graph(dag);
  Replan result;
  for (auto& [factors, members] : groups) {
    ReplicaGroup group{std::move(members), stage_slowdowns(dag, factors), {}, 0};
    group.profile = slowed_profile(profile, group.slowdowns);
    group.fastest_time_s = fastest_time_s(dag, graph, group.profile);
    result.fastest_time_s = std::max(result.fastest_time_s, group.fastest_time_s);
    result.groups.push_back(std::move(group));
  }
  std::ranges::sort(result.groups, {}, [](const ReplicaGroup& group) { return group.replicas.front(); });
  result.deadline_s = result.fastest_time_s * (1 + allowed_slowdown_pct / 100);
  return result;
}

simulator::PipelineFigures job_figures(const Replan& replan, std::span<const plan::Plan> plans,
                                       double blocking_power_w) {
  if (plans.size() != replan.groups.size()) {
    throw InputError(
        fmt::format("{} plans for {} groups of replicas; give one for each", plans.size(), replan.groups.size()));
  }
  std::vector<simulator::PipelineGroup> pipelines;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    pipelines.push_back({{plans[i].time_s, plans[i].energy_j}, static_cast<int>(replan.groups[i].replicas.size())});
  }
  return synchronise(pipelines, blocking_power_w);
}

namespace {

/// GPUs of all replicas of a group, by node.
std::vector<GpuGroup> gpus_of(const ReplicaGroup& group, const JobPipelines& job, const PlanRequest& request) {
  std::vector<GpuGroup> gpus;
  for (const int replica : group.replicas) {
    for (int rank = 0; rank < job.pipeline->dag.ranks; ++rank) {
      const int node =
          request.node_of_gpu.empty()
              ? 0
              : request.node_of_gpu.at(static_cast<std::size_t>(replica)).at(static_cast<std::size_t>(rank));
      gpus.push_back({.rank = rank, .node = node, .gpus = job.gpus_per_rank});
    }
  }
  return gpus;
}

std::vector<std::pair<double, double>> frontier_of(const SolvedPipeline& solved) {
  std::vector<std::pair<double, double>> points;
  for (const simulator::PipelineFigures& point : frontier_points(solved.frontier())) {
    points.emplace_back(point.time_s, point.energy_j);
  }
  return points;
}

double sum_of(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

plan::Plan plan_of_answer(std::string policy, const planner::PlanningProblem& problem,
                          const planner::PolicyPlan& answer, double switch_latency_s, double deadline_s) {
  const simulator::Timeline timeline = replay_under(problem, answer.choices(), {switch_latency_s, {}});
  plan::Plan plan = plan_of_replay(std::move(policy), problem, timeline, answer.choices());
  plan.deadline_s = std::max(plan.time_s, deadline_s);
  return plan;
}

JobPlanner::JobPlanner(JobPipelines job, PipelineSolver& solver, Progress* progress)
    : job_(std::move(job)),
      schedule_(std::make_shared<const schedule::Schedule>(job_.pipeline->schedule)),
      solver_(&solver),
      progress_(progress),
      unslowed_(split({})) {}

Replan JobPlanner::split(const PlanRequest& request) const {
  Replan split =
      replan(job_.pipeline->dag, job_.pipeline->profile, job_.replicas, request.slow, request.slowdown_pct.value_or(0));
  if (request.deadline_s) split.deadline_s = *request.deadline_s;
  return split;
}

PipelineProblem JobPlanner::problem(const ReplicaGroup& group) const {
  return {.schedule = schedule_,
          .profile = group.profile,
          .blocking_power_w = job_.pipeline->blocking_power_w,
          .options = job_.planner};
}

planner::PlanningProblem JobPlanner::policy_problem(const ReplicaGroup& group) const {
  return {.schedule = &job_.pipeline->schedule,
          .dag = &job_.pipeline->dag,
          .profile = &group.profile,
          .blocking_power_w = job_.pipeline->blocking_power_w,
          .progress = progress_};
}

JobPlanner::Solved JobPlanner::find_prepared(const ReplicaGroup& group) const {
  Solved known = solver_->find(problem(group));
  return known && known->is_prepared() ? known : nullptr;
}

plan::Plan JobPlanner::full_clocks(const ReplicaGroup& group) const {
  const planner::PlanningProblem problem = policy_problem(group);
  const std::vector<int> clocks_mhz = max_clocks_mhz(problem);
  const simulator::Timeline timeline = replay_under(problem, clocks_mhz, {job_.planner.switch_latency_s, {}});
  return plan_of_replay("max", problem, timeline, clocks_mhz);
}

std::optional<std::string> JobPlanner::finding(const Replan& split, std::span<const plan::Plan> plans) const {
  for (std::size_t group = 0; group < std::min(split.groups.size(), plans.size()); ++group) {
    auto found = faster_than_full_clocks(plans[group].time_s, full_clocks(split.groups[group]).time_s);
    if (found) return found;
  }
  return std::nullopt;
}

GroupPlans JobPlanner::plan_groups(const Replan& split, const PlanRequest& request) const {
  if (request.power_cap) return within_cap(split, request);
  return request.policy == planner::kLowgearPolicy ? by_lowgear(split, request) : by_policy(split, request);
}

/// A deadline that was asked for has to be kept; that of a slowdown is T_min by a replay, which rounding may put below
/// the planner's.
plan::Plan JobPlanner::solved_plan(const SolvedPipeline& solved, const Replan& split,
                                   const PlanRequest& request) const {
  const double deadline_s = request.deadline_s ? *request.deadline_s : std::max(split.deadline_s, solved.fastest_s());
  return solved.plan(deadline_s, progress_);
}

GroupPlans JobPlanner::by_lowgear(const Replan& split, const PlanRequest& request) const {
  GroupPlans made;
  for (const ReplicaGroup& group : split.groups) {
    made.plans.push_back(solved_plan(*solver_->solve(problem(group), progress_), split, request));
  }
  return made;
}

/// The least energy of any plan of its time, where the frontier is known.
void JobPlanner::take_bound(const ReplicaGroup& group, plan::Plan& plan) const {
  const Solved solved = solver_->find(problem(group));
  if (solved) plan.lower_bound_j = solved->frontier().lower_bound_j_at(ps_from_s(plan.time_s));
}

/// For pipelines with their slow ranks.
GroupPlans JobPlanner::by_policy(const Replan& split, const PlanRequest& request) const {
  const bool aims = request.deadline_s || request.slowdown_pct;
  const auto policy = request.policies.make(request.policy);
  GroupPlans made;
  for (const ReplicaGroup& group : split.groups) {
    planner::PlanningProblem problem = policy_problem(group);
    if (request.policy_steps) problem.steps = &request.policy_steps;
    const planner::PolicyPlan found = policy->plan(problem, aims ? std::optional(split.deadline_s) : std::nullopt);
    if (found.schedule && *found.schedule != *problem.schedule) {
      throw InputError(fmt::format("the policy {} runs an order of its own: plan for that order", policy->name()));
    }
    if (!found.note.empty()) made.note = fmt::format("policy {}: {}", policy->name(), found.note);
    plan::Plan plan = plan_of_answer(std::string(policy->name()), problem, found, job_.planner.switch_latency_s,
                                     aims ? split.deadline_s : 0);
    take_bound(group, plan);
    made.plans.push_back(std::move(plan));
  }
  return made;
}

/// Each group has its share of the job's cap: as many GPUs as it has of the job's.
GroupPlans JobPlanner::within_cap(const Replan& split, const PlanRequest& request) const {
  GroupPlans made;
  double deadline_s = split.deadline_s;
  // The replica that the cap slows down most sets the pace for the others: they are planned again.
  for (int pass = 0; pass < 2; ++pass) {
    made.plans.clear();
    double slowest_s = 0;
    for (const ReplicaGroup& group : split.groups) {
      const double share = static_cast<double>(group.replicas.size()) / job_.replicas;
      const CapConditions conditions{
          .gpus = gpus_of(group, job_, request), .planner = job_.planner, .wanted_deadline_s = deadline_s};
      CappedPlan capped = plan_within_cap(policy_problem(group), conditions, share_of(*request.power_cap, share));
      if (!capped.plan) throw InputError(capped.reason);
      made.note = std::move(capped.reason);
      slowest_s = std::max(slowest_s, capped.plan->plan.time_s);
      take_bound(group, capped.plan->plan);
      made.plans.push_back(std::move(capped.plan->plan));
    }
    if (split.groups.size() == 1 || slowest_s <= deadline_s) break;
    deadline_s = slowest_s;
  }
  return made;
}

JobPlan JobPlanner::plan(const PlanRequest& request) const {
  const Replan groups = split(request);
  // Its frontier is shown, also where every pipeline has a slow rank: they recover, and other jobs have none.
  const bool is_solved = request.power_cap || request.policy == planner::kLowgearPolicy;
  const Solved unslowed = is_solved ? solver_->solve(problem(unslowed_.groups.front()), progress_) : nullptr;
  JobPlan job = assemble(groups, plan_groups(groups, request));
  if (!is_solved) return job;
  const bool all_are_slow = groups.groups.size() == 1 && !request.slow.empty();
  job.frontier = frontier_of(all_are_slow ? *solver_->solve(problem(groups.groups.front()), progress_) : *unslowed);
  return job;
}

std::optional<QuickPlan> JobPlanner::quick_plan(const PlanRequest& request) const {
  if (request.power_cap || request.policy != planner::kLowgearPolicy) return std::nullopt;
  const Solved unslowed = find_prepared(unslowed_.groups.front());
  if (!unslowed) return std::nullopt;
  const Replan groups = split(request);
  QuickPlan quick{.plan = {}, .is_best = true};
  Solved useful;  // full clocks for all save nothing
  GroupPlans made;
  for (const ReplicaGroup& group : groups.groups) {
    if (Solved known = find_prepared(group)) {
      made.plans.push_back(solved_plan(*known, groups, request));
      useful = std::move(known);
    } else {
      quick.is_best = false;
      made.plans.push_back(full_clocks(group));
    }
  }
  if (!useful) return std::nullopt;
  quick.plan = assemble(groups, std::move(made));
  quick.plan.frontier = frontier_of(groups.groups.size() == 1 ? *useful : *unslowed);
  return quick;
}

std::vector<double> JobPlanner::expected_compute_s(const plan::Plan& plan) const {
  std::vector<double> times_s;
  for (const std::vector<plan::PlannedOp>& ops : plan.ranks) {
    times_s.push_back(std::accumulate(ops.begin(), ops.end(), 0.0, [&](double sum, const plan::PlannedOp& op) {
      return sum + job_.pipeline->profile.at_clock(op.stage, op.kind, op.clock_mhz).time_s;
    }));
  }
  return times_s;
}

PlannedPower JobPlanner::power_of(const Replan& split, std::span<const plan::Plan> plans, double time_s) const {
  const std::span<const double> blocking_w = job_.pipeline->blocking_power_w;
  std::vector<PowerTrace> traces;
  std::vector<double> gpus;
  for (std::size_t group = 0; group < split.groups.size(); ++group) {
    const ReplicaGroup& replicas = split.groups[group];
    for (PowerTrace& trace : rank_power(plans[group], replicas.profile, blocking_w, time_s)) {
      traces.push_back(std::move(trace));
      gpus.push_back(static_cast<double>(replicas.replicas.size()) * job_.gpus_per_rank);
    }
  }
  std::vector<PowerShare> shares;
  for (std::size_t i = 0; i < traces.size(); ++i) shares.push_back({&traces[i], gpus[i]});
  const PowerTrace all = sum(shares);
  PlannedPower power{.cycle = {.time_s = all.end_s}};
  for (std::size_t part = 0; part < kCycleParts; ++part) {
    const auto at_s = [&](std::size_t parts) { return all.end_s * static_cast<double>(parts) / kCycleParts; };
    power.cycle.power_w[part] = mean_w(all, at_s(part), at_s(part + 1));
  }
  power.waiting_w = sum_of(blocking_w) * job_.replicas * job_.gpus_per_rank;
  return power;
}

JobPlan JobPlanner::assemble(const Replan& split, GroupPlans made) const {
  JobPlan job;
  job.note = std::move(made.note);
  const simulator::PipelineFigures figures = job_figures(split, made.plans, sum_of(job_.pipeline->blocking_power_w));
  job.time_s = figures.time_s;
  job.energy_j = figures.energy_j * job_.gpus_per_rank;
  job.fastest_time_s = split.fastest_time_s;
  job.full_clock_scale = split.fastest_time_s / unslowed_.fastest_time_s;
  job.plan_of_replica.assign(static_cast<std::size_t>(job_.replicas), 0);
  for (std::size_t group = 0; group < split.groups.size(); ++group) {
    for (const int replica : split.groups[group].replicas) {
      job.plan_of_replica.at(static_cast<std::size_t>(replica)) = static_cast<int>(group);
    }
  }
  job.power = power_of(split, made.plans, job.time_s);
  for (plan::Plan& plan : made.plans) {
    plan.gpu_name = job_.gpu_name;
    plan.simulated = job_.pipeline->simulated;
    plan.clock_lead_s = job_.clock_lead_s;
    job.expected_compute_s.push_back(expected_compute_s(plan));
  }
  job.plans = std::move(made.plans);
  return job;
}

}  // namespace lowgear::api

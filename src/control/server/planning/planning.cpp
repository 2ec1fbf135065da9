#include "control/server/planning/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "control/server/planning/fingerprint.h"
#include "planning/adapt/adaptive_profile.h"
#include "planning/adapt/plan_power.h"
#include "planning/adapt/power_cap.h"
#include "planning/adapt/power_trace.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/envpipe/envpipe.h"
#include "planning/planner/policies/envpipe/envpipe_config.h"
#include "planning/planner/policies/envpipe/envpipe_start.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/regression/monotone_times.h"
#include "planning/profile/row_check.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"
#include "planning/workflow/frontier_curve.h"
#include "planning/workflow/replayed_plan.h"

namespace lowgear::server {
namespace {

constexpr auto kScopes = std::to_array<std::string_view>({"gpu", "node", "job"});

/// The cells, with times that fall with the clock where only noise says otherwise; the measured power stays.
profile::StageProfile measured_rows(const MeasuredProfile& measured, int stages) {
  std::map<std::pair<int, OpKind>, std::vector<const protocol::ProfileCell*>> cells_of_op;
  for (const protocol::ProfileCell& cell : measured.cells) cells_of_op[{cell.stage, cell.kind}].push_back(&cell);
  profile::StageProfile profile(stages);
  for (const auto& [op, cells] : cells_of_op) {
    std::vector<profile::ClockTime> times;
    for (const protocol::ProfileCell* cell : cells)
      times.push_back({cell->clock_mhz, cell->time_s, cell->time_error_s});
    times = monotone_times(std::move(times));
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const double energy_j = cells[i]->energy_j * (times[i].time_s / cells[i]->time_s);
      profile.add(op.first, op.second,
                  {.clock_mhz = times[i].clock_mhz, .time_s = times[i].time_s, .energy_j = energy_j});
    }
  }
  return profile;
}

/// Cells that contradict what GPUs do, for a decision; empty: none. Throws InputError for more power than any GPU
/// draws.
std::string cell_doubts(const profile::StageProfile& rows, std::span<const double> blocking_w) {
  constexpr std::size_t kMostCells = 2;
  const double waiting_w = blocking_w.empty() ? 0 : *std::ranges::min_element(blocking_w);
  const std::vector<profile::RowFinding> findings = check_rows(rows, waiting_w, {});
  std::string doubts;
  for (const profile::RowFinding& found : findings) {
    const std::string text =
        fmt::format("stage {} {} at {} MHz {}", found.stage, name(found.kind), found.row.clock_mhz, found.what);
    if (found.row.energy_j > kHighestGpuPowerW * found.row.time_s) {
      throw InputError(fmt::format("the profile cannot be right: {}; profile again", text));
    }
    if (&found - findings.data() < static_cast<std::ptrdiff_t>(kMostCells)) doubts += "; " + text;
  }
  if (findings.empty()) return "";
  if (findings.size() > kMostCells) doubts += fmt::format("; and {} more cells", findings.size() - kMostCells);
  return "the profile is in doubt: " + doubts.substr(2);
}

profile::StageProfile filled_profile(const MeasuredProfile& measured, int stages, std::span<const int> clocks_mhz) {
  profile::StageProfile rows = measured_rows(measured, stages);
  const bool enough = std::ranges::all_of(measured.cells, [&](const protocol::ProfileCell& cell) {
    return rows.measurements(cell.stage, cell.kind).size() >= profile::kMinMeasuredClocks;
  });
  if (!enough) return rows;
  return fit_few_clocks(rows, predictable_clocks(rows, clocks_mhz)).profile();
}

std::vector<double> blocking_by_rank(const MeasuredProfile& measured, const schedule::Schedule& schedule) {
  const std::vector<int> rank_of = rank_of_stage(schedule);
  std::vector<double> power_w(static_cast<std::size_t>(schedule.rank_count()), 0);
  std::vector<int> stages(power_w.size(), 0);
  for (const protocol::BlockingCell& cell : measured.blocking) {
    const auto rank = static_cast<std::size_t>(rank_of.at(static_cast<std::size_t>(cell.stage)));
    power_w[rank] += cell.power_w;
    ++stages[rank];
  }
  for (std::size_t rank = 0; rank < power_w.size(); ++rank) {
    if (stages[rank] == 0) throw InputError(fmt::format("the profile has no blocking power of rank {}", rank));
    power_w[rank] /= stages[rank];
  }
  return power_w;
}

adapt::PowerCap power_cap(const PowerLimit& limit, double share) {
  adapt::PowerCap cap;
  switch (limit.scope) {
    case CapScope::gpu:
      cap.gpu.peak_w = limit.watts;
      break;
    case CapScope::node:
      if (limit.watts) cap.node.peak_w = *limit.watts * share;
      break;
    case CapScope::job:
      if (limit.watts) cap.job.peak_w = *limit.watts * share;
      break;
  }
  if (limit.swing_w) cap.phase_swing_w = *limit.swing_w * share;
  return cap;
}

planner::EnvPipeOptions envpipe_options(const protocol::JobEnvPipe& settings) {
  return {.type = planner::envpipe_type(settings.type),
          .order = planner::EnvPipeOptions::Order::given,  // that in which the ranks run
          .reconfiguration = planner::envpipe_reconfiguration(settings.reconfig),
          .start_clock_mhz = settings.start_mhz,
          .lowest_clock_mhz = settings.lowest_mhz,
          .raise_step_mhz = settings.raise_step_mhz,
          .threshold_scale = settings.threshold_scale,
          .transfer_s = settings.transfer_ms * 1e-3};
}

/// Waits of units with a sender, and the transfer; one that no rank has reported is not a number.
std::vector<double> receives_of(const EnvPipeRequest& request, std::span<const int> senders) {
  std::vector<double> receive_s = request.receive_s;
  receive_s.resize(senders.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t op = 0; op < receive_s.size(); ++op) {
    receive_s[op] = senders[op] < 0 ? 0 : receive_s[op] + request.settings.transfer_ms * 1e-3;
  }
  return receive_s;
}

/// By the cells as they were measured, which `lowgear train` has from the server, too.
JobOrder job_order(const PipelineModel& model, const PlanningConditions& conditions) {
  JobOrder order{.present = conditions.early_forwards, .fitting = {}, .wanted = {}};
  planner::EnvPipeOptions options;
  if (conditions.envpipe) options = envpipe_options(conditions.envpipe->settings);
  const int microbatches = model.schedule.microbatches;
  try {
    const planner::EnvPipeFindings found = envpipe_order_findings(
        protocol::stage_profile_of(model.measured.cells, model.parallel.pp),
        protocol::blocking_power_of(model.measured.blocking, model.parallel.pp), microbatches, options);
    order.wanted = envpipe_order(microbatches, found, {microbatches}).early_forwards;
    order.fitting = envpipe_order(microbatches, found, order.present).early_forwards;
  } catch (const InputError& error) {
    order.problem = error.what();
  }
  return order;
}

}  // namespace

std::string_view name(CapScope scope) { return kScopes[static_cast<std::size_t>(scope)]; }

CapScope cap_scope_from_name(const JsonView& value) {
  const std::string text = value.text();
  const auto found = std::ranges::find(kScopes, text);
  if (found == kScopes.end()) value.fail(fmt::format("is {}", quote(text)), "use gpu, node or job");
  return static_cast<CapScope>(found - kScopes.begin());
}

std::string describe(const std::optional<PowerLimit>& limit) {
  if (!limit) return "no power limit";
  std::string text;
  if (limit->watts) text = fmt::format("{:.6g} W a {} at most", *limit->watts, name(limit->scope));
  if (limit->swing_w)
    text += fmt::format("{}{:.6g} W between phases at most", text.empty() ? "" : ", ", *limit->swing_w);
  return text;
}

std::size_t fingerprint(const PipelineModel& model) {
  Fingerprint fingerprint;
  fingerprint.add(static_cast<std::uint64_t>(server::fingerprint(model.schedule)));
  for (const protocol::ProfileCell& cell : model.measured.cells) {
    fingerprint.add(static_cast<std::uint64_t>(cell.stage) << 8U | static_cast<std::uint64_t>(cell.kind));
    fingerprint.add(static_cast<std::uint64_t>(cell.clock_mhz));
    fingerprint.add(cell.time_s);
    fingerprint.add(cell.energy_j);
  }
  for (const protocol::BlockingCell& cell : model.measured.blocking) fingerprint.add(cell.power_w);
  for (const int clock_mhz : model.clocks_mhz) fingerprint.add(static_cast<std::uint64_t>(clock_mhz));
  return fingerprint.value();
}

struct JobPlanner::Impl {
  using Solved = SolvedPipelines::Solved;

  std::shared_ptr<const PipelineModel> model;
  std::shared_ptr<Progress> progress;
  std::shared_ptr<SolvedPipelines> solved;
  schedule::PipelineDag dag;
  profile::StageProfile profile;
  std::vector<double> blocking_w;
  std::string doubts;      ///< about the profile; may be empty
  adapt::Replan unslowed;  ///< no rank is slow

  Impl(std::shared_ptr<const PipelineModel> of, std::shared_ptr<Progress> given,
       std::shared_ptr<SolvedPipelines> shared)
      : model(std::move(of)),
        progress(std::move(given)),
        solved(std::move(shared)),
        dag(build_dag(model->schedule)),
        profile(filled_profile(model->measured, model->schedule.stages, model->clocks_mhz)),
        blocking_w(blocking_by_rank(model->measured, model->schedule)),
        doubts(cell_doubts(measured_rows(model->measured, model->schedule.stages), blocking_w)),
        unslowed(replan({}, 0)) {}

  [[nodiscard]] adapt::Replan replan(std::span<const adapt::RankSlowdown> slow, double slowdown_pct) const {
    return lowgear::adapt::replan(dag, profile, model->parallel.dp, slow, slowdown_pct);
  }

  /// That of a group, with its slow ranks.
  [[nodiscard]] PipelineProblem problem(const adapt::ReplicaGroup& group) const {
    return {.schedule = std::shared_ptr<const schedule::Schedule>(model, &model->schedule),
            .profile = group.profile,
            .blocking_power_w = blocking_w};
  }

  /// Takes long, unless it is known.
  [[nodiscard]] Solved solve(const adapt::ReplicaGroup& group) const {
    return solved->solve(problem(group), progress.get());
  }
  /// Null: its plans would take long.
  [[nodiscard]] Solved find_prepared(const adapt::ReplicaGroup& group) const {
    Solved known = solved->find(problem(group));
    return known && known->is_prepared() ? known : nullptr;
  }
  /// Whose frontier is shown: that of the pipelines as they are, where all are alike; else of those that no slow rank
  /// is in.
  [[nodiscard]] const adapt::ReplicaGroup& shown_group(const adapt::Replan& replan) const {
    return replan.groups.size() == 1 ? replan.groups.front() : unslowed.groups.front();
  }

  [[nodiscard]] plan::Plan full_clocks(const adapt::ReplicaGroup& group) const {
    const planner::PlanningProblem problem{
        .schedule = &model->schedule, .dag = &dag, .profile = &group.profile, .blocking_power_w = blocking_w};
    const std::vector<int> clocks_mhz = max_clocks_mhz(problem);
    const simulator::Timeline timeline = replay_clocks(problem, clocks_mhz);
    return plan_of_replay("max", problem, timeline, clocks_mhz);
  }

  /// What a user has to know of the figures of a plan.
  void add_doubts(const PlanningConditions& conditions, JobPlan& job) const {
    const auto add = [&job](const std::string& text) { job.note += (job.note.empty() ? "" : "; ") + text; };
    if (!doubts.empty()) add(doubts);
    const adapt::Replan split = replan(conditions.slow, conditions.slowdown_pct);
    for (std::size_t group = 0; group < std::min(split.groups.size(), job.plans.size()); ++group) {
      const auto finding =
          workflow::faster_than_full_clocks(job.plans[group].time_s, full_clocks(split.groups[group]).time_s);
      if (finding) return add(*finding);
    }
  }

  [[nodiscard]] std::vector<double> expected_compute(const plan::Plan& plan) const {
    std::vector<double> times_s;
    for (const std::vector<plan::PlannedOp>& ops : plan.ranks) {
      times_s.push_back(std::accumulate(ops.begin(), ops.end(), 0.0, [&](double sum, const plan::PlannedOp& op) {
        return sum + profile.at_clock(op.stage, op.kind, op.clock_mhz).time_s;
      }));
    }
    return times_s;
  }

  [[nodiscard]] PlannedPower planned_power(const adapt::Replan& replan, std::span<const plan::Plan> plans,
                                           double time_s) const {
    std::vector<adapt::PowerTrace> traces;
    std::vector<double> gpus;
    for (std::size_t group = 0; group < replan.groups.size(); ++group) {
      const adapt::ReplicaGroup& replicas = replan.groups[group];
      for (adapt::PowerTrace& trace : adapt::rank_power(plans[group], replicas.profile, blocking_w, time_s)) {
        traces.push_back(std::move(trace));
        gpus.push_back(static_cast<double>(replicas.replicas.size()) * model->parallel.tp);
      }
    }
    std::vector<adapt::PowerShare> shares;
    for (std::size_t i = 0; i < traces.size(); ++i) shares.push_back({&traces[i], gpus[i]});
    const adapt::PowerTrace all = adapt::sum(shares);
    PlannedPower power{.cycle = {.time_s = all.end_s}};
    for (std::size_t part = 0; part < budget::kCycleParts; ++part) {
      const auto at_s = [&](std::size_t parts) { return all.end_s * static_cast<double>(parts) / budget::kCycleParts; };
      power.cycle.power_w[part] = adapt::mean_w(all, at_s(part), at_s(part + 1));
    }
    power.waiting_w =
        std::accumulate(blocking_w.begin(), blocking_w.end(), 0.0) * model->parallel.dp * model->parallel.tp;
    return power;
  }

  [[nodiscard]] JobPlan assembled(const adapt::Replan& replan, std::vector<plan::Plan> plans,
                                  const planner::Frontier& shown) const {
    JobPlan job = assembled(replan, std::move(plans));
    for (const simulator::PipelineFigures& point : workflow::frontier_points(shown)) {
      job.frontier.emplace_back(point.time_s, point.energy_j);
    }
    return job;
  }

  /// Without a frontier.
  [[nodiscard]] JobPlan assembled(const adapt::Replan& replan, std::vector<plan::Plan> plans) const {
    JobPlan job;
    const double blocking_of_pipeline_w = std::accumulate(blocking_w.begin(), blocking_w.end(), 0.0);
    const simulator::PipelineFigures figures = job_figures(replan, plans, blocking_of_pipeline_w);
    job.time_s = figures.time_s;
    job.energy_j = figures.energy_j * model->parallel.tp;
    job.fastest_time_s = replan.fastest_time_s;
    job.full_clock_scale = replan.fastest_time_s / unslowed.fastest_time_s;
    job.plan_of_replica.assign(static_cast<std::size_t>(model->parallel.dp), 0);
    for (std::size_t group = 0; group < replan.groups.size(); ++group) {
      for (const int replica : replan.groups[group].replicas) {
        job.plan_of_replica.at(static_cast<std::size_t>(replica)) = static_cast<int>(group);
      }
    }
    job.power = planned_power(replan, plans, job.time_s);
    for (plan::Plan& plan : plans) {
      plan.gpu_name = model->gpu;
      plan.clock_lead_s = model->switch_latency_s;
      job.expected_compute_s.push_back(expected_compute(plan));
    }
    job.plans = std::move(plans);
    return job;
  }

  /// The same clocks for all replicas; none is taken for slow.
  [[nodiscard]] JobPlan by_envpipe(const EnvPipeRequest& request) const {
    planner::EnvPipeOptions options = envpipe_options(request.settings);
    const profile::StageProfile used = envpipe_profile(profile, options);
    const planner::PlanningProblem problem{
        .schedule = &model->schedule, .dag = &dag, .profile = &used, .blocking_power_w = blocking_w};
    EnvPipeOutcome outcome{.state = request.state, .problem = {}};
    if (outcome.state.clocks_mhz.size() != dag.ops.size()) {
      outcome.state = {.clocks_mhz = envpipe_start_clocks_mhz(dag, options.type, max_clocks_mhz(problem),
                                                              envpipe_findings(problem, options).optimal_mhz)};
    }
    planner::EnvPipeReconfiguration loop(dag, planner::envpipe_clocks(used), options, outcome.state);
    if (!request.receive_s.empty()) {
      const auto step = loop.step(receives_of(request, loop.senders()));
      outcome.path = static_cast<int>(step.path.size());
      outcome.raised = static_cast<int>(step.raised.size());
      outcome.problem = step.problem;
    }
    outcome.state = loop.state();
    outcome.is_finished = loop.is_finished();
    std::vector<plan::Plan> plans;
    plans.push_back(
        plan_of_replay("envpipe", problem, replay_clocks(problem, outcome.state.clocks_mhz), outcome.state.clocks_mhz));
    JobPlan job = assembled(unslowed, std::move(plans));
    job.envpipe = std::move(outcome);
    return job;
  }

  /// Of pipelines with their slow ranks, for the time that is wanted where the policy can aim at one; EnvPipe's decides
  /// on simulated iterations.
  [[nodiscard]] JobPlan by_policy(const PlanningConditions& conditions) const {
    const bool aims = conditions.policy == protocol::JobPolicy::perseus;
    planner::PolicySettings settings;
    settings.envpipe.order = planner::EnvPipeOptions::Order::given;  // that in which the ranks run
    const auto policy = planner::make_policy(name(conditions.policy), settings);
    const adapt::Replan split = replan(conditions.slow, conditions.slowdown_pct);
    std::vector<plan::Plan> plans;
    std::string note;
    for (const adapt::ReplicaGroup& group : split.groups) {
      const planner::PlanningProblem problem{.schedule = &model->schedule,
                                             .dag = &dag,
                                             .profile = &group.profile,
                                             .blocking_power_w = blocking_w,
                                             .progress = progress.get()};
      const planner::PolicyPlan found = policy->plan(problem, aims ? std::optional(split.deadline_s) : std::nullopt);
      note = fmt::format("policy {}: {}", policy->name(), found.note);
      plans.push_back(plan_of_replay(std::string(policy->name()), problem, replay_clocks(problem, found.clocks_mhz),
                                     found.clocks_mhz));
    }
    JobPlan job = assembled(split, std::move(plans));
    job.note = std::move(note);
    return job;
  }

  /// One group's plan under its share of the job's limit: as many GPUs as it has of the job's.
  [[nodiscard]] adapt::CappedPlan capped(const adapt::ReplicaGroup& group, const PlanningConditions& conditions,
                                         double deadline_s) const {
    adapt::CappedJob job{.schedule = model->schedule,
                         .profile = group.profile,
                         .blocking_power_w = blocking_w,
                         .gpus = {},
                         .planner = {},
                         .wanted_deadline_s = deadline_s,
                         .progress = progress.get()};
    for (const int replica : group.replicas) {
      for (int rank = 0; rank < model->parallel.pp; ++rank) {
        const int node =
            conditions.node_of_gpu.at(static_cast<std::size_t>(replica)).at(static_cast<std::size_t>(rank));
        job.gpus.push_back({.rank = rank, .node = node, .gpus = model->parallel.tp});
      }
    }
    const double share = static_cast<double>(group.replicas.size()) / model->parallel.dp;
    return plan_within_cap(job, power_cap(*conditions.power, share));
  }

  [[nodiscard]] JobPlan best(const PlanningConditions& conditions) const {
    if (conditions.power) return within_cap(conditions);
    if (conditions.envpipe) return by_envpipe(*conditions.envpipe);
    return conditions.policy == protocol::JobPolicy::lowgear ? by_lowgear(conditions) : by_policy(conditions);
  }

  [[nodiscard]] JobPlan by_lowgear(const PlanningConditions& conditions) const {
    const adapt::Replan split = replan(conditions.slow, conditions.slowdown_pct);
    // Also where every pipeline has a slow rank: they recover, and other jobs have none.
    const Solved of_unslowed = solve(unslowed.groups.front());
    std::vector<plan::Plan> plans;
    Solved last;
    for (const adapt::ReplicaGroup& group : split.groups) {
      last = solve(group);
      plans.push_back(last->plan(split.deadline_s, progress.get()));
    }
    return assembled(split, std::move(plans), (split.groups.size() == 1 ? last : of_unslowed)->frontier());
  }

  [[nodiscard]] JobPlan within_cap(const PlanningConditions& conditions) const {
    const adapt::Replan split = replan(conditions.slow, conditions.slowdown_pct);
    std::vector<plan::Plan> plans;
    std::string note;
    double deadline_s = split.deadline_s;
    // The replica that the cap slows down most sets the pace for the others: they are planned again.
    for (int pass = 0; pass < 2; ++pass) {
      plans.clear();
      double slowest_s = 0;
      for (const adapt::ReplicaGroup& group : split.groups) {
        adapt::CappedPlan capped_plan = capped(group, conditions, deadline_s);
        if (!capped_plan.plan) throw InputError(capped_plan.reason);
        note = capped_plan.reason;
        slowest_s = std::max(slowest_s, capped_plan.plan->plan.time_s);
        plans.push_back(std::move(capped_plan.plan->plan));
      }
      if (split.groups.size() == 1 || slowest_s <= deadline_s) break;
      deadline_s = slowest_s;
    }
    JobPlan job = assembled(split, std::move(plans), solve(shown_group(split))->frontier());
    job.note = std::move(note);
    return job;
  }
};

JobPlanner::JobPlanner(std::shared_ptr<const PipelineModel> model, std::shared_ptr<Progress> progress,
                       std::shared_ptr<SolvedPipelines> solved)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(progress), std::move(solved))) {}
JobPlanner::~JobPlanner() = default;

JobPlan JobPlanner::plan(const PlanningConditions& conditions) {
  JobPlan job = impl_->best(conditions);
  impl_->add_doubts(conditions, job);
  if (!conditions.early_forwards.empty()) job.order = job_order(*impl_->model, conditions);
  return job;
}

std::optional<QuickPlan> JobPlanner::quick_plan(const PlanningConditions& conditions) {
  const bool is_lowgears = !conditions.envpipe && conditions.policy == protocol::JobPolicy::lowgear;
  if (conditions.power || !is_lowgears) return std::nullopt;
  const Impl::Solved unslowed = impl_->find_prepared(impl_->unslowed.groups.front());
  if (!unslowed) return std::nullopt;
  const adapt::Replan split = impl_->replan(conditions.slow, conditions.slowdown_pct);
  QuickPlan quick{.plan = {}, .is_best = true};
  Impl::Solved useful;  // full clocks for all save nothing
  std::vector<plan::Plan> plans;
  for (const adapt::ReplicaGroup& group : split.groups) {
    if (Impl::Solved known = impl_->find_prepared(group)) {
      plans.push_back(known->plan(split.deadline_s, impl_->progress.get()));
      useful = std::move(known);
    } else {
      quick.is_best = false;
      plans.push_back(impl_->full_clocks(group));
    }
  }
  if (!useful) return std::nullopt;
  quick.plan = impl_->assembled(split, std::move(plans), (split.groups.size() == 1 ? useful : unslowed)->frontier());
  impl_->add_doubts(conditions, quick.plan);
  return quick;
}

ProfileVerdict JobPlanner::judge_profile(const PlanningConditions& conditions) const {
  const PipelineModel& model = *impl_->model;
  std::vector<adapt::MeasuredError> errors;
  for (const protocol::ProfileCell& cell : model.measured.cells) {
    errors.push_back({.stage = cell.stage,
                      .kind = cell.kind,
                      .clock_mhz = cell.clock_mhz,
                      .time_error_s = cell.time_error_s,
                      .energy_error_j = cell.energy_error_j});
  }
  const adapt::ProfilingTask task{.schedule = model.schedule,
                                  .supported_mhz = model.clocks_mhz,
                                  .blocking_power_w = impl_->blocking_w,
                                  .slowdown_pct = conditions.slowdown_pct,
                                  .planner = {},
                                  .progress = impl_->progress.get()};
  const adapt::ProfilingStep step =
      next_profiling_step(task, measured_rows(model.measured, model.schedule.stages), errors);
  ProfileVerdict verdict{.more_clocks_mhz = step.next_clocks_mhz,
                         .energy_error_pct = step.energy_error_j / step.energy_j * 100,
                         .reason = {}};
  verdict.reason = fmt::format(
      "the plan's energy is known to {:.2g} % (one standard error); {}", verdict.energy_error_pct,
      verdict.more_clocks_mhz.empty() ? std::string(step.is_known ? "that is enough" : "no other clock would tell more")
                                      : fmt::format("measures {} MHz next", fmt::join(verdict.more_clocks_mhz, ", ")));
  return verdict;
}

}  // namespace lowgear::server

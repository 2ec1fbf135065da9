#include "server/planning/measured_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "planning/api/plan_replays.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/group_check.h"
#include "planning/profile/regression/monotone_times.h"
#include "planning/profile/row_check.h"
#include "planning/schedule/dag.h"
#include "rivals/policies/envpipe/envpipe.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"
#include "server/planning/solved_pipelines.h"
#include "server/steering/adaptive_profile.h"

namespace lowgear::server {
namespace {

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

/// Cells that contradict what GPUs do, and stages and kinds that contradict each other. Throws InputError for more
/// power than any GPU draws.
std::vector<std::string> cell_doubts(const profile::StageProfile& rows, std::span<const double> blocking_w) {
  constexpr std::size_t kMostCells = 2;
  const double waiting_w = blocking_w.empty() ? 0 : *std::ranges::min_element(blocking_w);
  std::vector<std::string> doubts;
  for (const profile::RowFinding& found : check_rows(rows, waiting_w, {})) {
    doubts.push_back(
        fmt::format("stage {} {} at {} MHz {}", found.stage, name(found.kind), found.row.clock_mhz, found.what));
    if (found.row.energy_j > kHighestGpuPowerW * found.row.time_s) {
      throw InputError(fmt::format("the profile cannot be right: {}; profile again", doubts.back()));
    }
  }
  for (profile::GroupFinding& found : check_groups(rows)) doubts.push_back(std::move(found.what));
  const std::size_t more = doubts.size() - std::min(doubts.size(), kMostCells);
  doubts.resize(doubts.size() - more);
  if (more > 0) doubts.push_back(fmt::format("and {} more", more));
  return doubts;
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

policies::EnvPipeOptions envpipe_options(const protocol::JobEnvPipe& settings) {
  return {.type = policies::envpipe_type(settings.type),
          .order = policies::EnvPipeOptions::Order::given,  // that in which the ranks run
          .reconfiguration = policies::envpipe_reconfiguration(settings.reconfig),
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
  policies::EnvPipeOptions options;
  if (conditions.envpipe) options = envpipe_options(conditions.envpipe->settings);
  const int microbatches = model.schedule.microbatches;
  try {
    const policies::EnvPipeFindings found = envpipe_order_findings(
        protocol::stage_profile_of(model.measured.cells, model.parallel.pp),
        protocol::blocking_power_of(model.measured.blocking, model.parallel.pp), microbatches, options);
    order.wanted = envpipe_order(microbatches, found, {microbatches}).early_forwards;
    order.fitting = envpipe_order(microbatches, found, order.present).early_forwards;
  } catch (const InputError& error) {
    order.problem = error.what();
  }
  return order;
}

api::ProfiledPipeline pipeline_of(const PipelineModel& model) {
  api::ProfiledPipeline pipeline{.profile = filled_profile(model.measured, model.schedule.stages, model.clocks_mhz),
                                 .schedule = model.schedule,
                                 .dag = build_dag(model.schedule),
                                 .blocking_power_w = blocking_by_rank(model.measured, model.schedule),
                                 .simulated = model.measured.simulated};
  pipeline.doubts = cell_doubts(measured_rows(model.measured, model.schedule.stages), pipeline.blocking_power_w);
  return pipeline;
}

api::JobPipelines job_of(const PipelineModel& model, const api::ProfiledPipeline& pipeline) {
  return {.pipeline = &pipeline,
          .replicas = model.parallel.dp,
          .gpus_per_rank = model.parallel.tp,
          .gpu_name = model.gpu,
          .clock_lead_s = model.switch_latency_s};
}

}  // namespace

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

MeasuredJob::MeasuredJob(std::shared_ptr<const PipelineModel> model, std::shared_ptr<Progress> progress,
                         std::shared_ptr<SolvedPipelines> solved)
    : model_(std::move(model)),
      progress_(std::move(progress)),
      solved_(std::move(solved)),
      pipeline_(pipeline_of(*model_)),
      planner_(job_of(*model_, pipeline_), *solved_, progress_.get()) {}

std::string MeasuredJob::doubts(const PlanningConditions& conditions, const JobPlan& plan) const {
  std::vector<std::string> doubts = pipeline_.doubts;
  if (const auto problem = api::lead_problem(model_->switch_latency_s, plan.time_s)) {
    doubts.push_back(*problem + "; correct the job's switch_latency_ms");
  }
  if (auto finding = planner_.finding(planner_.split(conditions.request), plan.plans)) {
    doubts.push_back(std::move(*finding));
  }
  return doubts.empty() ? "" : fmt::format("figures of the plan may be wrong: {}", fmt::join(doubts, "; "));
}

/// The same clocks for all replicas; none is taken for slow.
PlannedJob MeasuredJob::by_envpipe(const EnvPipeRequest& request) const {
  policies::EnvPipeOptions options = envpipe_options(request.settings);
  const profile::StageProfile used = envpipe_profile(pipeline_.profile, options);
  planner::PlanningProblem problem = pipeline_.problem();
  problem.profile = &used;
  EnvPipeOutcome outcome{.state = request.state, .problem = {}};
  if (outcome.state.clocks_mhz.size() != pipeline_.dag.ops.size()) {
    outcome.state = {.clocks_mhz = envpipe_start_clocks_mhz(pipeline_.dag, options.type, max_clocks_mhz(problem),
                                                            envpipe_findings(problem, options).optimal_mhz)};
  }
  policies::EnvPipeReconfiguration loop(pipeline_.dag, policies::envpipe_clocks(used), options, outcome.state);
  if (!request.receive_s.empty()) {
    const auto step = loop.step(receives_of(request, loop.senders()));
    outcome.path = static_cast<int>(step.path.size());
    outcome.raised = static_cast<int>(step.raised.size());
    outcome.problem = step.problem;
  }
  outcome.state = loop.state();
  outcome.is_finished = loop.is_finished();
  const std::vector<int>& clocks_mhz = outcome.state.clocks_mhz;
  api::GroupPlans made;
  made.plans.push_back(plan_of_replay("envpipe", problem, replay_clocks(problem, clocks_mhz), clocks_mhz));
  PlannedJob job{.plan = planner_.assemble(planner_.unslowed(), std::move(made)), .envpipe = {}, .order = {}};
  job.envpipe = std::move(outcome);
  return job;
}

PlannedJob MeasuredJob::plan(const PlanningConditions& conditions) const {
  PlannedJob job;
  if (conditions.envpipe && !conditions.request.power_cap) {
    job = by_envpipe(*conditions.envpipe);
  } else {
    job.plan = planner_.plan(conditions.request);
  }
  job.doubts = doubts(conditions, job.plan);
  if (!conditions.early_forwards.empty()) job.order = job_order(*model_, conditions);
  return job;
}

std::optional<api::QuickPlan> MeasuredJob::quick_plan(const PlanningConditions& conditions) const {
  if (conditions.envpipe) return std::nullopt;
  return planner_.quick_plan(conditions.request);
}

std::string MeasuredJob::contradiction(const FullClockIteration& measured) const {
  constexpr double kAllowedShare = 0.1;
  constexpr double kAllowedErrors = 3;
  const planner::PlanningProblem problem = pipeline_.problem();
  const std::vector<int> clocks_mhz = max_clocks_mhz(problem);
  api::GroupPlans made;
  made.plans.push_back(plan_of_replay("full clocks", problem, replay_clocks(problem, clocks_mhz), clocks_mhz));
  const JobPlan profiled = planner_.assemble(planner_.unslowed(), std::move(made));
  const protocol::JobParallel& parallel = model_->parallel;
  const double gpus_of_rank = static_cast<double>(parallel.dp) * parallel.tp;

  double busy_w = 0;
  for (const schedule::ComputeOp& op : pipeline_.dag.ops) {
    const profile::Measurement& row = pipeline_.profile.at_max_clock(op.stage, op.kind);
    busy_w = std::max(busy_w, row.energy_j / row.time_s);
  }
  double squared_error_j2 = measured.energy_error_j * measured.energy_error_j;
  for (const protocol::ProfileCell& cell : model_->measured.cells) {
    if (cell.clock_mhz != pipeline_.profile.at_max_clock(cell.stage, cell.kind).clock_mhz) continue;
    const auto ops = std::ranges::count_if(pipeline_.dag.ops, [&](const schedule::ComputeOp& op) {
      return op.stage == cell.stage && op.kind == cell.kind;
    });
    const double error_j = static_cast<double>(ops) * gpus_of_rank * cell.energy_error_j;
    squared_error_j2 += error_j * error_j;
  }

  const double longer_s = std::max(0.0, measured.time_s - profiled.time_s);
  double waiting_w = 0;
  for (const double power_w : pipeline_.blocking_power_w) waiting_w += power_w * gpus_of_rank;
  const double ranks = static_cast<double>(pipeline_.blocking_power_w.size());
  const double least_j = profiled.energy_j * std::min(1.0, measured.time_s / profiled.time_s) + longer_s * waiting_w;
  const double most_j = profiled.energy_j + longer_s * std::max(waiting_w, busy_w * ranks * gpus_of_rank);
  const double margin_j = std::max(kAllowedShare * measured.energy_j, kAllowedErrors * std::sqrt(squared_error_j2));
  if (measured.energy_j >= least_j - margin_j && measured.energy_j <= most_j + margin_j) return "";
  return fmt::format(
      "by the profile, an iteration of {:.4g} s at full clocks takes {:.4g} to {:.4g} J, and {:.4g} J ± {:.2g} J were "
      "measured",
      measured.time_s, least_j, most_j, measured.energy_j, measured.energy_error_j);
}

ProfileVerdict MeasuredJob::judge_profile(const PlanningConditions& conditions) const {
  const PipelineModel& model = *model_;
  std::vector<MeasuredError> errors;
  for (const protocol::ProfileCell& cell : model.measured.cells) {
    errors.push_back({.stage = cell.stage,
                      .kind = cell.kind,
                      .clock_mhz = cell.clock_mhz,
                      .time_error_s = cell.time_error_s,
                      .energy_error_j = cell.energy_error_j});
  }
  const ProfilingTask task{.schedule = model.schedule,
                           .supported_mhz = model.clocks_mhz,
                           .blocking_power_w = pipeline_.blocking_power_w,
                           .slowdown_pct = conditions.request.slowdown_pct.value_or(0),
                           .planner = {},
                           .progress = progress_.get()};
  const ProfilingStep step = next_profiling_step(task, measured_rows(model.measured, model.schedule.stages), errors);
  ProfileVerdict verdict{.more_clocks_mhz = step.next_clocks_mhz,
                         .energy_error_pct = step.energy_error_j / step.energy_j * 100,
                         .reason = {}};
  verdict.reason =
      fmt::format("the plan's energy is known to {} % (one standard error)", three_digits(verdict.energy_error_pct));
  if (verdict.more_clocks_mhz.empty()) {
    verdict.reason += step.is_known ? "; that is enough" : "; no other clock would tell more";
  }
  if (conditions.full_clocks) verdict.contradiction = contradiction(*conditions.full_clocks);
  return verdict;
}

}  // namespace lowgear::server

#include "server/job/job_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "planning/plan/plan_json.h"
#include "server/job/job_problems.h"
#include "server/job/job_record.h"

namespace lowgear::server {
namespace {

Json positive_or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json baseline_json(const IterationMeans* baseline) {
  if (baseline == nullptr) return nullptr;
  return {{"time_s", baseline->time_s},
          {"time_error_s", baseline->time_error_s},
          {"energy_j", or_null(baseline->energy_j)},
          {"energy_error_j", baseline->energy_j ? Json(baseline->energy_error_j) : Json(nullptr)},
          {"iterations", baseline->iterations}};
}

/// Of a job that plans its own steps; null before the first prediction, and where times mean nothing.
Json prediction_json(const JobRecord& job) {
  const bool predicts = job.plans_itself() && job.invalid.empty();
  const auto error = predicts ? prediction_error(job.history.kept()) : std::nullopt;
  if (!error) return nullptr;
  return {{"iterations", error->iterations},
          {"stalled_iterations", error->stalled},
          {"mean_error_pct", error->iterations > 0 ? Json(error->mean * 100) : Json(nullptr)},
          {"rms_error_pct", error->iterations > 0 ? Json(error->rms * 100) : Json(nullptr)}};
}

/// How far the trials of the newest plan have come; null while no clocks are tried.
Json profiling_json(const JobRecord& job) {
  const PlanVersion* newest = job.plans.newest();
  if (job.state() != JobState::profiling || newest == nullptr || newest->trials.empty()) return nullptr;
  const std::int64_t next =
      job.history.kept().empty() ? newest->from_iteration : job.history.kept().back().iteration + 1;
  std::set<int> clocks;
  std::set<int> begun;
  for (const plan::ClockTrial& trial : newest->trials) {
    clocks.insert(trial.clock_mhz);
    if (begun.empty() || trial.first_iteration <= next) begun.insert(trial.clock_mhz);
  }
  return {{"clock", begun.size()},
          {"clocks", clocks.size()},
          {"round", job.profiling.sweep().rounds()},
          {"remaining_iterations", std::max<std::int64_t>(0, newest->trials.back().end_iteration() - next)}};
}

/// Of the state, and which ranks have no part in it.
std::string reason_of(const JobRecord& job) {
  const auto& [ranks, first_rank] = job.history.not_following();
  if (!should_follow_plan(job) || ranks == 0) return job.status.reason;
  if (ranks == 1) return fmt::format("{}; rank {} does not follow the plan", job.status.reason, first_rank);
  return fmt::format("{}; rank {} and {} {} do not follow the plan", job.status.reason, first_rank, ranks - 1,
                     ranks == 2 ? "other" : "others");
}

}  // namespace

JobSnapshot job_snapshot(const JobRecord& job) {
  JobSnapshot snapshot{.job = job.id,
                       .name = job.spec.name,
                       .model = job.spec.model,
                       .gpu = job.spec.gpu,
                       .schedule = job.layout.schedule().name,
                       .state = std::string(name(job.state())),
                       .simulated = job.ranks.simulated(),
                       .ranks = job.ranks.size(),
                       .registered = job.ranks.registered(),
                       .work = job.work,
                       .plan_version = job.plan_version(),
                       .slowdown_allowed_ratio = job.targets.guard_limit_pct() / 100,
                       .planned_step_s = {},
                       .planned_step_j = {},
                       .baseline = {},
                       .saved_ratio = {},
                       .saved_error_ratio = {},
                       .slowdown_ratio = {},
                       .slowdown_error_ratio = {},
                       .stragglers = {},
                       .problems = {},
                       .places = {},
                       .activity = &job.activity};
  const PlanVersion* training = job.plans.training();
  if (training != nullptr && training->time_s > 0 && job.invalid.empty()) {
    snapshot.planned_step_s = training->time_s;
    snapshot.planned_step_j = training->energy_j;
  }
  if (const IterationMeans* baseline = stated_baseline(job)) {
    snapshot.baseline = JobSnapshot::Baseline{baseline->time_s, baseline->energy_j};
  }
  if (const auto compared = comparison_of(job); compared && !compared->has_slow_baseline()) {
    snapshot.slowdown_ratio = compared->slowdown;
    snapshot.slowdown_error_ratio = compared->slowdown_error;
    snapshot.saved_ratio = compared->saved;
    if (compared->saved) snapshot.saved_error_ratio = compared->saved_error;
  }
  for (const auto& [rank, slow] : slow_ranks(job)) ++snapshot.stragglers[slow.cause];
  for (const JobProblem& problem : problems_of(job)) {
    snapshot.problems[std::string(problem.kind)] = problem.ranks.size();
  }
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered == nullptr || registered->finished || registered->spec.gpu_uuid.empty()) continue;
    snapshot.places.push_back({rank, registered->spec.host, registered->spec.gpu_uuid});
  }
  return snapshot;
}

Json summary_json(const JobRecord& job) {
  const PlanVersion* newest = job.plans.newest();
  const PlanVersion* const stated = job.invalid.empty() ? newest : nullptr;
  const IterationMeans now = present_means(job);
  Json summary = {{"job", job.id},
                  {"run", job.spec.run},
                  {"name", job.spec.name},
                  {"framework", job.spec.framework},
                  {"state", name(job.state())},
                  {"reason", job.status.reason.empty() ? Json(nullptr) : Json(reason_of(job))},
                  {"simulated", job.ranks.simulated()},
                  {"gpu", job.spec.gpu},
                  {"model", job.spec.model},
                  {"parallel", to_json(job.spec).at("parallel")},
                  {"schedule", job.layout.schedule().name},
                  {"microbatches", job.spec.microbatches},
                  {"policy", name(job.policy)},
                  {"created_s", job.status.created_s},
                  {"finished_s", or_null(job.status.finished_s)},
                  {"ranks", job.ranks.size()},
                  {"registered", job.ranks.registered()},
                  {"work", job.work ? to_json(*job.work) : Json(nullptr)},
                  {"iteration", job.history.kept().empty() ? Json(nullptr) : Json(job.history.kept().back().iteration)},
                  {"plan_version", job.plan_version()},
                  {"purpose", newest == nullptr ? Json(nullptr) : Json(name(newest->purpose))},
                  {"profiling", profiling_json(job)},
                  {"from_iteration", newest == nullptr ? Json(nullptr) : Json(newest->from_iteration)},
                  {"time_s", positive_or_null(now.time_s)},
                  {"stalled_iterations", now.stalled},
                  {"unmeasured_iterations", now.unmeasured},
                  {"energy_j", or_null(now.energy_j)},
                  {"planned_time_s", stated == nullptr ? Json(nullptr) : positive_or_null(stated->time_s)},
                  {"planned_energy_j", stated == nullptr ? Json(nullptr) : positive_or_null(stated->energy_j)},
                  {"baseline", baseline_json(stated_baseline(job))},
                  {"prediction", prediction_json(job)},
                  {"saved_pct", nullptr},
                  {"saved_error_pct", nullptr},
                  {"slowdown_pct", nullptr},
                  {"slowdown_error_pct", nullptr},
                  {"guard_limit_pct", job.targets.guard_limit_pct()},
                  {"stragglers", to_json(slow_ranks(job))},
                  {"problems", to_json(problems_of(job), job)},
                  {"power_cap", to_json(job.targets.power_cap())},
                  {"settings", {{"slowdown_pct", job.targets.slowdown_pct()}, {"guard_pct", job.targets.guard_pct()}}},
                  {"has_failed", job.state() == JobState::observing && job.status.retry_s.has_value()},
                  {"retry_s", job.state() == JobState::observing ? or_null(job.status.retry_s) : Json(nullptr)}};
  if (const auto compared = comparison_of(job); compared && !compared->has_slow_baseline()) {
    summary["slowdown_pct"] = compared->slowdown * 100;
    summary["slowdown_error_pct"] = compared->slowdown_error * 100;
    if (compared->saved) {
      summary["saved_pct"] = *compared->saved * 100;
      summary["saved_error_pct"] = compared->saved_error * 100;
    }
  }
  return summary;
}

Json ranks_json(const JobRecord& job) {
  Json list = Json::array();
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered == nullptr) continue;
    Json entry = to_json(registered->spec);
    entry.erase("clocks_mhz");
    entry.erase("instance");
    entry["finished"] = registered->finished;
    entry["failure"] = registered->failure.empty() ? Json(nullptr) : Json(registered->failure);
    entry["follows_plans"] = registered->spec.follows_plans && registered->refusal.empty();
    entry["refusal"] = registered->refusal.empty() ? Json(nullptr) : Json(registered->refusal);
    entry["energy_fault"] = registered->energy_fault.empty() ? Json(nullptr) : Json(registered->energy_fault);
    entry["heard_s"] = registered->heard_s;
    entry["last_iteration"] =
        job.history.last_iteration(rank) < 0 ? Json(nullptr) : Json(job.history.last_iteration(rank));
    entry["gpu_now"] = {{"power_w", or_null(registered->gpu.power_w)},
                        {"sm_clock_mhz", or_null(registered->gpu.sm_clock_mhz)},
                        {"sm_clock_min_mhz", or_null(registered->gpu.sm_clock_min_mhz)},
                        {"sm_clock_max_mhz", or_null(registered->gpu.sm_clock_max_mhz)},
                        {"temperature_c", or_null(registered->gpu.temperature_c)}};
    entry["report"] = nullptr;
    entry["factor"] = nullptr;
    if (registered->last) {
      const protocol::IterationReport& last = *registered->last;
      entry["report"] = {{"iteration", last.iteration},
                         {"plan_version", last.plan_version},
                         {"time_s", last.time_s},
                         {"compute_s", last.compute_s},
                         {"energy_j", or_null(last.energy_j)},
                         {"throttled_power", last.throttled_power},
                         {"throttled_thermal", last.throttled_thermal}};
      const PlanVersion* plan = job.plans.find(last.plan_version);
      if (plan != nullptr && !plan->expected_compute_s.empty()) {
        const auto index =
            static_cast<std::size_t>(plan->plan_of_replica.at(static_cast<std::size_t>(registered->spec.dp_rank)));
        const double expected_s =
            plan->expected_compute_s.at(index).at(static_cast<std::size_t>(registered->spec.pp_rank));
        if (expected_s > 0) entry["factor"] = last.compute_s / expected_s;
      }
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json frontier_json(const JobRecord& job) {
  Json vertices = Json::array();
  for (const auto& [time_s, energy_j] : job.planning.frontier()) vertices.push_back(Json::array({time_s, energy_j}));
  Json operating_point = nullptr;
  Json measured = nullptr;
  const double pipelines = static_cast<double>(job.spec.parallel.dp) * job.spec.parallel.tp;
  if (const PlanVersion* training = job.plans.training(); training != nullptr && training->time_s > 0) {
    operating_point = {{"time_s", training->time_s}, {"energy_j", training->energy_j / pipelines}};
  }
  const IterationMeans now = present_means(job);
  if (now.iterations > 0 && now.energy_j) {
    measured = {{"time_s", now.time_s}, {"energy_j", *now.energy_j / pipelines}};
  }
  return {{"job", job.id},
          {"vertices", std::move(vertices)},
          {"operating_point", std::move(operating_point)},
          {"measured", std::move(measured)},
          {"invalid", or_null(invalid_text(job))}};
}

Json timeline_json(const JobRecord& job) {
  const PlanVersion* training = job.plans.training();
  return {{"job", job.id},
          {"plan_version", training != nullptr ? Json(training->version) : Json(nullptr)},
          {"plan", training != nullptr ? Json::parse(write_plan(training->plans.front())) : Json(nullptr)}};
}

Json iteration_json(const JobRecord& job, const JobIteration& iteration) {
  Json document = to_json(iteration);
  const PlanVersion* plan = job.plans.find(iteration.plan_version);
  document["trial_mhz"] = plan == nullptr ? Json(nullptr) : or_null(plan->trial_mhz(iteration.iteration));
  document["planned_time_s"] = plan == nullptr ? Json(nullptr) : positive_or_null(plan->time_s);
  document["planned_energy_j"] = plan == nullptr ? Json(nullptr) : positive_or_null(plan->energy_j);
  if (!job.plans_itself()) return document;
  document["units_time_s"] = or_null(iteration.units_time_s);
  document["predicted_time_s"] = or_null(iteration.predicted_time_s);
  document["full_clocks"] = iteration.full_clocks;
  return document;
}

Json iterations_json(const JobRecord& job, std::int64_t after, std::size_t limit) {
  Json list = Json::array();
  const auto begin = std::ranges::upper_bound(job.history.kept(), after, {}, &JobIteration::iteration);
  for (auto it = begin; it != job.history.kept().end() && list.size() < limit; ++it)
    list.push_back(iteration_json(job, *it));
  return {{"job", job.id}, {"iterations", std::move(list)}, {"invalid", or_null(invalid_text(job))}};
}

Json gpu_json(const JobRecord& job, int rank) {
  const RegisteredRank& registered = *job.ranks.find(rank);
  return {{"job", job.id},
          {"rank", rank},
          {"gpu_uuid", registered.spec.gpu_uuid},
          {"power_w", or_null(registered.gpu.power_w)},
          {"sm_clock_mhz", or_null(registered.gpu.sm_clock_mhz)},
          {"sm_clock_min_mhz", or_null(registered.gpu.sm_clock_min_mhz)},
          {"sm_clock_max_mhz", or_null(registered.gpu.sm_clock_max_mhz)},
          {"temperature_c", or_null(registered.gpu.temperature_c)},
          {"energy_j", registered.last ? or_null(registered.last->energy_j) : Json(nullptr)}};
}

}  // namespace lowgear::server

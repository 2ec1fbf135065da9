#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "control/server/job/job.h"
#include "planning/plan/plan_json.h"

namespace lowgear {
namespace {

Json positive_or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json baseline_json(const std::optional<Baseline>& baseline) {
  if (!baseline) return nullptr;
  return {{"time_s", baseline->time_s},
          {"time_error_s", baseline->time_error_s},
          {"energy_j", or_null(baseline->energy_j)},
          {"energy_error_j", baseline->energy_j ? Json(baseline->energy_error_j) : Json(nullptr)},
          {"iterations", baseline->iterations}};
}

Json power_limit_json(const std::optional<PowerLimit>& limit) {
  if (!limit) return nullptr;
  return {{"scope", name(limit->scope)}, {"watts", or_null(limit->watts)}, {"swing_w", or_null(limit->swing_w)}};
}

}  // namespace

/// Only against what was measured: a saving against anything else would be a guess.
std::optional<Comparison> Job::comparison() const {
  const Recent now = recent();
  const bool trains = !versions_.empty() && versions_.back()->purpose == PlanPurpose::train && now.iterations > 0;
  if (!trains || !baseline_) return std::nullopt;
  Comparison comparison;
  comparison.slowdown = now.time_s / baseline_->time_s - 1;
  if (now.energy_j && baseline_->energy_j) {
    const double ratio = *now.energy_j / *baseline_->energy_j;
    comparison.saved = 1 - ratio;
    comparison.saved_error =
        ratio * std::hypot(now.energy_error_j / *now.energy_j, baseline_->energy_error_j / *baseline_->energy_j);
  }
  return comparison;
}

JobSnapshot Job::snapshot() const {
  JobSnapshot snapshot{.job = id_,
                       .name = spec_.name,
                       .model = spec_.model,
                       .gpu = spec_.gpu,
                       .schedule = spec_.schedule_is_csv ? "csv" : spec_.schedule,
                       .state = std::string(name(state_)),
                       .simulated = ranks_.simulated(),
                       .ranks = ranks_.size(),
                       .registered = ranks_.registered(),
                       .plan_version = plan_version(),
                       .slowdown_allowed_ratio = guard_limit_pct() / 100,
                       .planned_step_s = {},
                       .planned_step_j = {},
                       .baseline = {},
                       .saved_ratio = {},
                       .saved_error_ratio = {},
                       .slowdown_ratio = {},
                       .stragglers = {},
                       .activity = &activity_};
  if (training_version_ && training_version_->time_s > 0) {
    snapshot.planned_step_s = training_version_->time_s;
    snapshot.planned_step_j = training_version_->energy_j;
  }
  if (baseline_) snapshot.baseline = JobSnapshot::Baseline{baseline_->time_s, baseline_->energy_j};
  if (const auto compared = comparison()) {
    snapshot.slowdown_ratio = compared->slowdown;
    snapshot.saved_ratio = compared->saved;
    if (compared->saved) snapshot.saved_error_ratio = compared->saved_error;
  }
  for (const auto& [rank, slow] : slow_ranks()) ++snapshot.stragglers[slow.cause];
  return snapshot;
}

/// Of the state, and which ranks have no part in it.
std::string Job::reason() const {
  const bool has_plans = state_ == JobState::profiling || state_ == JobState::baseline ||
                         state_ == JobState::planning || state_ == JobState::running;
  const auto& [ranks, first_rank] = not_following_;
  if (!has_plans || ranks == 0) return reason_;
  if (ranks == 1) return fmt::format("{}; rank {} does not follow the plan", reason_, first_rank);
  return fmt::format("{}; rank {} and {} {} do not follow the plan", reason_, first_rank, ranks - 1,
                     ranks == 2 ? "other" : "others");
}

Json Job::summary() const {
  const PlanVersion* newest = versions_.empty() ? nullptr : versions_.back().get();
  const Recent now = recent();
  Json stragglers = Json::array();
  for (const auto& [rank, slow] : slow_ranks()) {
    stragglers.push_back({{"rank", rank}, {"factor", slow.factor}, {"cause", slow.cause}});
  }
  Json summary = {{"job", id_},
                  {"run", spec_.run},
                  {"name", spec_.name},
                  {"framework", spec_.framework},
                  {"state", name(state_)},
                  {"reason", reason_.empty() ? Json(nullptr) : Json(reason())},
                  {"simulated", ranks_.simulated()},
                  {"gpu", spec_.gpu},
                  {"model", spec_.model},
                  {"parallel", to_json(spec_).at("parallel")},
                  {"schedule", spec_.schedule_is_csv ? Json("csv") : Json(spec_.schedule)},
                  {"microbatches", spec_.microbatches},
                  {"created_s", created_s_},
                  {"finished_s", or_null(finished_s_)},
                  {"ranks", ranks_.size()},
                  {"registered", ranks_.registered()},
                  {"iteration", history_.empty() ? Json(nullptr) : Json(history_.back().iteration)},
                  {"plan_version", plan_version()},
                  {"purpose", newest == nullptr ? Json(nullptr) : Json(name(newest->purpose))},
                  {"from_iteration", newest == nullptr ? Json(nullptr) : Json(newest->from_iteration)},
                  {"time_s", positive_or_null(now.time_s)},
                  {"energy_j", or_null(now.energy_j)},
                  {"planned_time_s", newest == nullptr ? Json(nullptr) : positive_or_null(newest->time_s)},
                  {"planned_energy_j", newest == nullptr ? Json(nullptr) : positive_or_null(newest->energy_j)},
                  {"baseline", baseline_json(baseline_)},
                  {"saved_pct", nullptr},
                  {"saved_error_pct", nullptr},
                  {"slowdown_pct", nullptr},
                  {"guard_limit_pct", guard_limit_pct()},
                  {"stragglers", std::move(stragglers)},
                  {"power_cap", power_limit_json(power_limit_)},
                  {"settings", {{"slowdown_pct", slowdown_pct_}, {"guard_pct", guard_pct_}}},
                  {"has_failed", state_ == JobState::observing && retry_s_.has_value()},
                  {"retry_s", state_ == JobState::observing ? or_null(retry_s_) : Json(nullptr)}};
  if (const auto compared = comparison()) {
    summary["slowdown_pct"] = compared->slowdown * 100;
    if (compared->saved) {
      summary["saved_pct"] = *compared->saved * 100;
      summary["saved_error_pct"] = compared->saved_error * 100;
    }
  }
  return summary;
}

Json Job::ranks_json() const {
  Json list = Json::array();
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const RegisteredRank* registered = ranks_.find(rank);
    if (registered == nullptr) continue;
    Json entry = to_json(registered->spec);
    entry.erase("clocks_mhz");
    entry.erase("instance");
    entry["finished"] = registered->finished;
    entry["heard_s"] = registered->heard_s;
    entry["last_iteration"] = log_.last_iteration(rank) < 0 ? Json(nullptr) : Json(log_.last_iteration(rank));
    entry["gpu_now"] = {{"power_w", or_null(registered->gpu.power_w)},
                        {"sm_clock_mhz", or_null(registered->gpu.sm_clock_mhz)},
                        {"sm_clock_min_mhz", or_null(registered->gpu.sm_clock_min_mhz)},
                        {"sm_clock_max_mhz", or_null(registered->gpu.sm_clock_max_mhz)},
                        {"temperature_c", or_null(registered->gpu.temperature_c)}};
    entry["report"] = nullptr;
    entry["factor"] = nullptr;
    if (registered->last) {
      const IterationReport& last = *registered->last;
      entry["report"] = {{"iteration", last.iteration},
                         {"plan_version", last.plan_version},
                         {"time_s", last.time_s},
                         {"compute_s", last.compute_s},
                         {"energy_j", or_null(last.energy_j)},
                         {"throttled_power", last.throttled_power},
                         {"throttled_thermal", last.throttled_thermal}};
      const PlanVersion* plan = version(last.plan_version);
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

Json Job::frontier_json() const {
  Json vertices = Json::array();
  for (const auto& [time_s, energy_j] : frontier_) vertices.push_back(Json::array({time_s, energy_j}));
  Json operating_point = nullptr;
  Json measured = nullptr;
  const double pipelines = static_cast<double>(spec_.parallel.dp) * spec_.parallel.tp;
  if (training_version_ && training_version_->time_s > 0) {
    operating_point = {{"time_s", training_version_->time_s}, {"energy_j", training_version_->energy_j / pipelines}};
  }
  const Recent now = recent();
  if (now.iterations > 0 && now.energy_j) {
    measured = {{"time_s", now.time_s}, {"energy_j", *now.energy_j / pipelines}};
  }
  return {{"job", id_},
          {"vertices", std::move(vertices)},
          {"operating_point", std::move(operating_point)},
          {"measured", std::move(measured)}};
}

Json Job::timeline_json() const {
  const bool has_plan = training_version_ != nullptr;
  return {{"job", id_},
          {"plan_version", has_plan ? Json(training_version_->version) : Json(nullptr)},
          {"plan", has_plan ? Json::parse(write_plan(training_version_->plans.front())) : Json(nullptr)}};
}

Json Job::iteration_json(const JobIteration& iteration) const {
  Json document = to_json(iteration);
  const PlanVersion* plan = version(iteration.plan_version);
  document["trial_mhz"] = plan == nullptr ? Json(nullptr) : or_null(plan->trial_mhz(iteration.iteration));
  document["planned_time_s"] = plan == nullptr ? Json(nullptr) : positive_or_null(plan->time_s);
  document["planned_energy_j"] = plan == nullptr ? Json(nullptr) : positive_or_null(plan->energy_j);
  return document;
}

Json Job::iterations_json(std::int64_t after, std::size_t limit) const {
  Json list = Json::array();
  const auto begin = std::ranges::upper_bound(history_, after, {}, &JobIteration::iteration);
  for (auto it = begin; it != history_.end() && list.size() < limit; ++it) list.push_back(iteration_json(*it));
  return {{"job", id_}, {"iterations", std::move(list)}};
}

Json Job::gpu_json(int rank) const {
  const RegisteredRank& registered = *ranks_.find(rank);
  return {{"job", id_},
          {"rank", rank},
          {"gpu_uuid", registered.spec.gpu_uuid},
          {"power_w", or_null(registered.gpu.power_w)},
          {"sm_clock_mhz", or_null(registered.gpu.sm_clock_mhz)},
          {"sm_clock_min_mhz", or_null(registered.gpu.sm_clock_min_mhz)},
          {"sm_clock_max_mhz", or_null(registered.gpu.sm_clock_max_mhz)},
          {"temperature_c", or_null(registered.gpu.temperature_c)},
          {"energy_j", registered.last ? or_null(registered.last->energy_j) : Json(nullptr)}};
}

}  // namespace lowgear

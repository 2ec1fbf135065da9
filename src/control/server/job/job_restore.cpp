#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/core/error.h"
#include "control/protocol/json_members.h"
#include "control/server/job/job.h"

namespace lowgear {
namespace {

constexpr int kMaxNumber = 1 << 30;

std::optional<double> optional_number(const JsonView& object, std::string_view key) {
  return has_value(object, key) ? std::optional(object.at(key).number()) : std::nullopt;
}

Json slow_json(const std::map<int, SlowRank>& slow) {
  Json list = Json::array();
  for (const auto& [rank, known] : slow) {
    list.push_back({{"rank", rank}, {"factor", known.factor}, {"cause", known.cause}});
  }
  return list;
}

std::map<int, SlowRank> read_slow(const JsonView& list) {
  std::map<int, SlowRank> slow;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView entry = list.at(i);
    slow[entry.at("rank").integer_in(0, kMaxNumber)] = {entry.at("factor").number(), entry.at("cause").text()};
  }
  return slow;
}

JobState read_state(const JsonView& value) {
  for (int i = 0; i <= static_cast<int>(JobState::failed); ++i) {
    if (name(static_cast<JobState>(i)) == value.text()) return static_cast<JobState>(i);
  }
  value.fail("is not a state of a job");
}

std::string name_of(const StoredPlan& row) { return fmt::format("plan {}", row.version); }
std::string name_of(const StoredCells& row) {
  return fmt::format("profile cells of rank {} for plan {}", row.rank, row.plan_version);
}
std::string name_of(const StoredReports& row) {
  return fmt::format("reports of rank {} from iteration {} on", row.rank, row.first_iteration);
}

/// Calls `take` with each row, and notes those that it throws for.
template <typename Row, typename Take>
void for_intact(const std::vector<Row>& rows, std::vector<std::string>& left_out, Take take) {
  for (const Row& row : rows) {
    try {
      take(row);
    } catch (const InputError& error) {
      left_out.push_back(fmt::format("{}: {}", name_of(row), error.what()));
    }
  }
}

void require_rank(const RankRegistry& ranks, int rank, int of_row) {
  if (rank != of_row || ranks.find(rank) == nullptr)
    throw InputError(fmt::format("rank {} has sent no such row", rank));
}

}  // namespace

void Job::store_rank(const RegisteredRank& rank) {
  Json document = to_json(rank.spec);
  document["key"] = rank.key;
  document["finished"] = rank.finished;
  changes_.store.ranks.push_back({id_, rank.spec.rank, document.dump()});
}

StoredJob Job::stored() const {
  return {.id = id_,
          .run = spec_.run,
          .spec = to_json(spec_).dump(),
          .state = state_json().dump(),
          .created_s = created_s_,
          .finished_s = finished_s_};
}

Json Job::state_json() const {
  Json state = {{"state", name(state_)},
                {"reason", reason_},
                {"plan_failed", plan_failed_},
                {"decisions", decisions_},
                {"slowdown_pct", slowdown_pct_},
                {"guard_pct", guard_pct_},
                {"reported_slow", slow_json(reported_slow_)},
                {"detected_slow", slow_json(detected_slow_)},
                {"set_by", set_by_json()},
                {"power_limit", nullptr},
                {"reserved_version", reserved_version_},
                {"baseline_version", baseline_version_},
                {"baseline", nullptr},
                {"training_version", training_version_ ? training_version_->version : 0},
                {"first_training_version", first_training_version_},
                {"is_capped", is_capped_},
                {"wanted_clocks_mhz", sweep_.wanted_mhz()},
                {"sweep_first_version", sweep_.first_version()},
                {"sweep_version", sweep_.plan_version()},
                {"sweep_end_iteration", sweep_.end_iteration()},
                {"trials_cost_s", budget_.spent_s()},
                {"profiled_s", or_null(profiled_s_)},
                {"retry_s", or_null(retry_s_)}};
  if (power_limit_) {
    state["power_limit"] = {{"scope", name(power_limit_->scope)},
                            {"watts", or_null(power_limit_->watts)},
                            {"swing_w", or_null(power_limit_->swing_w)}};
  }
  if (baseline_) {
    state["baseline"] = {{"time_s", baseline_->time_s},
                         {"time_error_s", baseline_->time_error_s},
                         {"time_spread_s", baseline_->time_spread_s},
                         {"energy_j", or_null(baseline_->energy_j)},
                         {"energy_error_j", baseline_->energy_error_j},
                         {"iterations", baseline_->iterations}};
  }
  return state;
}

Json Job::set_by_json() const {
  Json stragglers = Json::array();
  for (const auto& [rank, decision] : set_by_.stragglers)
    stragglers.push_back({{"rank", rank}, {"decision", decision}});
  return {{"power_limit", set_by_.power_limit}, {"settings", set_by_.settings}, {"stragglers", std::move(stragglers)}};
}

void Job::restore_set_by(const JsonView& set_by) {
  set_by_.power_limit = set_by.at("power_limit").integer();
  set_by_.settings = set_by.at("settings").integer();
  const JsonView stragglers = set_by.at("stragglers");
  for (std::size_t i = 0; i < stragglers.size(); ++i) {
    const JsonView straggler = stragglers.at(i);
    set_by_.stragglers[straggler.at("rank").integer_in(0, kMaxNumber)] = straggler.at("decision").integer();
  }
}

void Job::restore_state(const JsonView& state) {
  state_ = read_state(state.at("state"));
  reason_ = state.at("reason").text();
  plan_failed_ = has_value(state, "plan_failed") && state.at("plan_failed").boolean();
  decisions_ = state.at("decisions").integer();
  slowdown_pct_ = state.at("slowdown_pct").number();
  guard_pct_ = state.at("guard_pct").number();
  reported_slow_ = read_slow(state.at("reported_slow"));
  detected_slow_ = read_slow(state.at("detected_slow"));
  if (has_value(state, "set_by")) restore_set_by(state.at("set_by"));
  if (has_value(state, "power_limit")) {
    const JsonView limit = state.at("power_limit");
    power_limit_ = PowerLimit{.scope = cap_scope_from_name(limit.at("scope")),
                              .watts = optional_number(limit, "watts"),
                              .swing_w = optional_number(limit, "swing_w")};
  }
  is_capped_ = has_value(state, "is_capped") && state.at("is_capped").boolean();
  first_training_version_ = state.at("first_training_version").integer_in(0, kMaxNumber);
  // States of older servers name none.
  if (has_value(state, "reserved_version")) {
    reserved_version_ = state.at("reserved_version").integer_in(0, kMaxNumber);
  }
  baseline_version_ = state.at("baseline_version").integer_in(0, kMaxNumber);
  if (has_value(state, "baseline")) {
    const JsonView baseline = state.at("baseline");
    baseline_ = Baseline{.time_s = baseline.at("time_s").number(),
                         .time_error_s = baseline.at("time_error_s").number(),
                         .time_spread_s = baseline.at("time_spread_s").number(),
                         .energy_j = optional_number(baseline, "energy_j"),
                         .energy_error_j = baseline.at("energy_error_j").number(),
                         .iterations = baseline.at("iterations").integer_in(1, kMaxNumber)};
  }
}

void Job::restore_rank(const StoredRank& row, double now_s) {
  const Json document = parse_json(row.document, "rank");
  const JsonView view(document, "rank");
  Json spec = document;
  const std::string key = view.at("key").text();
  const bool finished = view.at("finished").boolean();
  spec.erase("key");
  spec.erase("finished");
  const RankSpec rank = read_rank_spec(JsonView(spec, "rank"), spec_.parallel);
  (void)ranks_.add(rank, key, now_s);
  if (!finished) return;
  ranks_.finish(rank.rank);
  log_.finish(rank.rank);
}

void Job::restore_sweep(const JsonView& state) {
  constexpr std::string_view kWanted = "wanted_clocks_mhz";
  if (has_value(state, "profiled_s")) profiled_s_ = state.at("profiled_s").number();
  if (has_value(state, "retry_s")) retry_s_ = state.at("retry_s").number();
  const bool names_first = has_value(state, "sweep_first_version");
  const int first_version = names_first ? state.at("sweep_first_version").integer_in(0, kMaxNumber) : 0;
  if (!state.has(kWanted)) {  // of a server that measured one clock after the other
    sweep_ = TrialSweep(std::max(first_version, 1));
    return;
  }
  if (first_version == 0) return;
  sweep_ = TrialSweep(first_version);
  const JsonView wanted = state.at(kWanted);
  std::vector<int> clocks_mhz;
  for (std::size_t i = 0; i < wanted.size(); ++i) clocks_mhz.push_back(wanted.at(i).integer_in(1, kMaxNumber));
  if (!clocks_mhz.empty()) sweep_.want(std::move(clocks_mhz));
  if (!baseline_ || !spec_.profiling) return;
  budget_ = full_budget();
  budget_.spend(state.at("trials_cost_s").number(), 0);
}

/// Plans, cells and reports, as they came.
void Job::restore_progress(const StoreContents& rows, std::vector<std::string>& left_out) {
  for_intact(rows.plans, left_out, [&](const StoredPlan& row) {
    auto version = std::make_shared<const PlanVersion>(read_plan_version(row.document));
    if (version->version != row.version) throw InputError("its version is not that of the plan");
    versions_.push_back(std::move(version));
    if (versions_.size() > kKeptVersions) versions_.pop_front();
  });
  if (versions_.empty() && !rows.plans.empty()) throw InputError("all of its plans are damaged");
  if (!versions_.empty()) texts_.emplace(*versions_.back());
  for_intact(rows.cells, left_out, [&](const StoredCells& row) {
    const Json document = parse_json(row.document, "cells");
    RankCells cells = read_rank_cells(JsonView(document, "cells"), schedule_.stages);
    require_rank(ranks_, cells.rank, row.rank);
    (void)sweep_.add(std::move(cells));
  });
  for_intact(rows.reports, left_out, [&](const StoredReports& row) {
    const Json document = parse_json(row.document, "reports");
    const RankReports reports = read_rank_reports(JsonView(document, "reports"));
    require_rank(ranks_, reports.rank, row.rank);
    (void)log_.add(reports, 0);
    while (const auto iteration = log_.next(0)) collect(*iteration);
  });
}

/// A job that was about to be planned for by a profile that the store does not have any more.
void Job::replace_lost_profile(double now_s) {
  const bool needs_it = state_ == JobState::planning || (state_ == JobState::baseline && !sweep_.is_new());
  if (!needs_it) return;
  if (!spec_.profiling) return observe("the profile that it was to be planned from is lost", now_s);
  begin_profile(now_s);
}

/// What was under way when the server ended.
void Job::resume(const Profiles& profiles, double now_s) {
  if (state_ == JobState::registering) return;  // profiles are looked at once all ranks are there
  const bool led_to_no_profile = state_ == JobState::observing && !plan_failed_;
  if (!sweep_.is_empty() && state_ != JobState::profiling && !led_to_no_profile) {
    try {
      own_profile_ = merged_profile();
    } catch (const InputError&) {
      // No profile came of it, as was decided then.
    }
  }
  if (state_ == JobState::profiling) {
    return baseline_ && sweep_.rounds() > 0 ? end_trials(now_s) : begin_profile(now_s);
  }
  const auto known = profiles.find(profile_key());
  if (own_profile_) {
    use_profile(own_profile_);
  } else if (known != profiles.end()) {
    // It may have become known in the moment in which the server ended.
    if (state_ == JobState::observing && !plan_failed_) {
      // Not after drift: the job was to be profiled again as this one does not fit it any more.
      if (sweep_.first_version() <= 1) profile_found(known->second, now_s);
      return;
    }
    use_profile(known->second);
  }
  if (!model_) return replace_lost_profile(now_s);
  replan("the server was started again");
}

std::unique_ptr<Job> Job::restore(const StoredJob& stored, const StoreContents& rows, const Profiles& profiles,
                                  double now_s, std::vector<std::string>* left_out) {
  const Json spec = parse_json(stored.spec, "job");
  auto job = std::make_unique<Job>(stored.id, read_job_spec(JsonView(spec, "job")), stored.created_s);
  const Json state = parse_json(stored.state, "state");
  const JsonView view(state, "state");
  job->finished_s_ = stored.finished_s;
  job->heard_s_ = now_s;
  job->restore_state(view);
  for (const StoredRank& row : rows.ranks) job->restore_rank(row, now_s);
  job->restore_sweep(view);
  std::vector<std::string> damaged;
  job->restore_progress(rows, damaged);
  if (left_out != nullptr) *left_out = std::move(damaged);
  job->last_version_ = std::max(job->plan_version(), job->reserved_version_);
  if (job->sweep_.rounds() > 0) {
    job->sweep_.begin(view.at("sweep_version").integer_in(0, kMaxNumber), view.at("sweep_end_iteration").integer(),
                      now_s);
  }
  const int training = view.at("training_version").integer_in(0, kMaxNumber);
  for (const auto& version : job->versions_) {
    if (version->version == training) job->training_version_ = version;
  }
  job->store_state_ = false;
  if (!job->is_over()) job->resume(profiles, now_s);
  return job;
}

}  // namespace lowgear

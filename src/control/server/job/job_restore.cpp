#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/core/error.h"
#include "control/protocol/json_members.h"
#include "control/server/job/job.h"
#include "control/server/parts/state_bounds.h"

namespace lowgear::server {
namespace {

/// The members of a job's state, in the order in which it has always been stored.
constexpr auto kStateMembers = std::to_array<const char*>({"state",
                                                           "reason",
                                                           "plan_failed",
                                                           "decisions",
                                                           "slowdown_pct",
                                                           "guard_pct",
                                                           "reported_slow",
                                                           "detected_slow",
                                                           "set_by",
                                                           "power_limit",
                                                           "reserved_version",
                                                           "baseline_version",
                                                           "baseline",
                                                           "training_version",
                                                           "first_training_version",
                                                           "is_capped",
                                                           "wanted_clocks_mhz",
                                                           "sweep_first_version",
                                                           "sweep_version",
                                                           "sweep_end_iteration",
                                                           "trials_cost_s",
                                                           "profiled_s",
                                                           "retry_s"});

JobState read_state(const JsonView& value) {
  for (int i = 0; i <= static_cast<int>(JobState::finished); ++i) {
    if (name(static_cast<JobState>(i)) == value.text()) return static_cast<JobState>(i);
  }
  if (value.text() == "failed") return JobState::finished;  // a state that older servers knew
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
  if (!rank.refusal.empty()) document["refusal"] = rank.refusal;
  outbox_.changes.store.ranks.push_back({id(), rank.spec.rank, document.dump()});
}

StoredJob Job::stored() const {
  return {.id = id(),
          .run = spec().run,
          .spec = to_json(spec()).dump(),
          .state = state_json().dump(),
          .created_s = about_.created_s,
          .finished_s = status_.finished_s};
}

Json Job::state_json() const {
  Json state = Json::object();
  for (const char* member : kStateMembers) state[member] = nullptr;
  state["state"] = name(status_.state);
  state["reason"] = status_.reason;
  state["plan_failed"] = status_.plan_failed;
  state["decisions"] = outbox_.decisions;
  state["is_capped"] = guard_.is_capped();
  state["retry_s"] = or_null(status_.retry_s);
  targets_.write_state(state);
  watch_.write_state(state);
  plans_.write_state(state);
  baseline_.write_state(state);
  profiling_.write_state(state);
  return state;
}

void Job::restore_state(const JsonView& state) {
  status_.state = read_state(state.at("state"));
  status_.reason = state.at("reason").text();
  status_.plan_failed = protocol::has_value(state, "plan_failed") && state.at("plan_failed").boolean();
  if (protocol::has_value(state, "retry_s")) status_.retry_s = state.at("retry_s").number();
  outbox_.decisions = state.at("decisions").integer();
  guard_.restore(protocol::has_value(state, "is_capped") && state.at("is_capped").boolean());
  targets_.restore(state);
  watch_.restore(state);
  baseline_.restore(state);
}

void Job::restore_rank(const StoredRank& row, double now_s) {
  const Json document = parse_json(row.document, "rank");
  const JsonView view(document, "rank");
  Json spec = document;
  const std::string key = view.at("key").text();
  const bool finished = view.at("finished").boolean();
  spec.erase("key");
  spec.erase("finished");
  spec.erase("refusal");
  const protocol::RankSpec rank = read_rank_spec(JsonView(spec, "rank"), about_.spec.parallel);
  (void)ranks_.add(rank, key, now_s);
  if (protocol::has_value(view, "refusal")) ranks_.find(rank.rank)->refusal = view.at("refusal").text();
  if (!finished) return;
  ranks_.finish(rank.rank);
  history_.finish(rank.rank);
}

/// Plans, cells and reports, as they came.
void Job::restore_progress(const StoreContents& rows, std::vector<std::string>& left_out) {
  for_intact(rows.plans, left_out, [&](const StoredPlan& row) {
    PlanVersion version = read_plan_version(row.document);
    if (version.version != row.version) throw InputError("its version is not that of the plan");
    plans_.restore(std::move(version));
  });
  if (plans_.newest() == nullptr && !rows.plans.empty()) throw InputError("all of its plans are damaged");
  for_intact(rows.cells, left_out, [&](const StoredCells& row) {
    const Json document = parse_json(row.document, "cells");
    protocol::RankCells cells = protocol::read_rank_cells(JsonView(document, "cells"), about_.schedule.stages);
    require_rank(ranks_, cells.rank, row.rank);
    (void)profiling_.sweep().add(std::move(cells));
  });
  for_intact(rows.reports, left_out, [&](const StoredReports& row) {
    const Json document = parse_json(row.document, "reports");
    const protocol::RankReports reports = protocol::read_rank_reports(JsonView(document, "reports"));
    require_rank(ranks_, reports.rank, row.rank);
    (void)history_.add(reports, 0);
    while (const auto iteration = history_.next(0)) collect(*iteration);
  });
}

/// A job that was about to be planned for by a profile that the store does not have any more.
void Job::replace_lost_profile(double now_s) {
  const bool needs_it =
      status_.state == JobState::planning || (status_.state == JobState::baseline && !profiling_.sweep().is_new());
  if (!needs_it) return;
  if (!spec().profiling) return observe("the profile for its plan is lost", now_s);
  begin_profile(now_s);
}

/// What was under way when the server ended.
void Job::resume(const Profiles& profiles, double now_s) {
  if (status_.state == JobState::registering) return;  // profiles are looked at once all ranks are there
  const bool led_to_no_profile = status_.state == JobState::observing && !status_.plan_failed;
  if (!profiling_.sweep().is_empty() && status_.state != JobState::profiling && !led_to_no_profile) {
    try {
      profiling_.merge(about_.schedule.stages, ranks_.simulated());
    } catch (const InputError&) {
      // No profile came of it, as was decided then.
    }
  }
  if (status_.state == JobState::profiling) {
    return baseline_.result() && profiling_.sweep().rounds() > 0 ? end_trials(now_s) : begin_profile(now_s);
  }
  const auto known = profiles.find(profile_key());
  if (profiling_.own()) {
    use_profile(profiling_.own());
  } else if (known != profiles.end()) {
    // It may have become known in the moment in which the server ended.
    if (status_.state == JobState::observing && !status_.plan_failed) {
      // Not after drift: the job was to be profiled again as this one does not fit it any more.
      if (profiling_.sweep().first_version() <= 1) profile_found(known->second, now_s);
      return;
    }
    use_profile(known->second);
  }
  if (!planning_.model) return replace_lost_profile(now_s);
  replan("the server was restarted");
}

std::unique_ptr<Job> Job::restore(const StoredJob& stored, const StoreContents& rows, const Profiles& profiles,
                                  double now_s, std::vector<std::string>* left_out) {
  const Json spec = parse_json(stored.spec, "job");
  auto job = std::make_unique<Job>(stored.id, protocol::read_job_spec(JsonView(spec, "job")), stored.created_s);
  const Json state = parse_json(stored.state, "state");
  const JsonView view(state, "state");
  job->status_.finished_s = stored.finished_s;
  job->heard_.last_s = now_s;
  job->restore_state(view);
  for (const StoredRank& row : rows.ranks) job->restore_rank(row, now_s);
  job->profiling_.restore(view, job->spec(), job->baseline_.result());
  std::vector<std::string> damaged;
  job->restore_progress(rows, damaged);
  if (left_out != nullptr) *left_out = std::move(damaged);
  job->plans_.restore_numbers(view);
  job->profiling_.resume_version(view, now_s);
  job->outbox_.state_has_changed = false;
  if (!job->is_over()) job->resume(profiles, now_s);
  return job;
}

}  // namespace lowgear::server

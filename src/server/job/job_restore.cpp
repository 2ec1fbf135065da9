#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "server/job/job.h"
#include "server/store/store.h"

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
  if (rank.decisions > 0) document["decisions"] = rank.decisions;
  outbox_.changes.store.ranks.push_back({record_.id, rank.spec.rank, document.dump()});
}

StoredJob Job::stored() const {
  return {.id = record_.id,
          .run = record_.spec.run,
          .spec = to_json(record_.spec).dump(),
          .state = state_json().dump(),
          .created_s = record_.status.created_s,
          .finished_s = record_.status.finished_s};
}

Json Job::state_json() const {
  Json state = Json::object();
  for (const char* member : kStateMembers) state[member] = nullptr;
  state["state"] = name(record_.status.state);
  state["reason"] = record_.status.reason;
  state["plan_failed"] = record_.status.plan_failed;
  state["decisions"] = outbox_.decisions;
  state["is_capped"] = guard_.is_capped();
  state["retry_s"] = or_null(record_.status.retry_s);
  state["policy"] = name(record_.policy);
  if (record_.work) state["work"] = to_json(*record_.work);
  record_.targets.write_state(state);
  record_.watch.write_state(state);
  record_.plans.write_state(state);
  record_.baseline.write_state(state);
  record_.profiling.write_state(state);
  if (!record_.order_note.empty()) state["order"] = record_.order_note;
  write_envpipe(state);
  return state;
}

void Job::restore_state(const JsonView& state) {
  record_.status.state = read_state(state.at("state"));
  record_.status.reason = state.at("reason").text();
  record_.status.plan_failed = has_value(state, "plan_failed") && state.at("plan_failed").boolean();
  if (has_value(state, "retry_s")) record_.status.retry_s = state.at("retry_s").number();
  if (has_value(state, "policy")) {
    const auto policy = protocol::find_job_policy(state.at("policy").text());
    if (!policy) state.at("policy").fail("is no policy");
    record_.policy = *policy;
  }
  outbox_.decisions = state.at("decisions").integer();
  if (has_value(state, "work")) record_.work = protocol::read_job_work(state.at("work"));
  if (has_value(state, "order")) record_.order_note = state.at("order").text();
  guard_.restore(has_value(state, "is_capped") && state.at("is_capped").boolean());
  record_.targets.restore(state);
  record_.watch.restore(state);
  record_.baseline.restore(state);
  restore_envpipe(state);
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
  spec.erase("decisions");
  const protocol::RankSpec rank = read_rank_spec(JsonView(spec, "rank"), record_.spec.parallel);
  (void)record_.ranks.add(rank, key, now_s);
  count_gpu_once(rank.rank);
  if (has_value(view, "refusal")) record_.ranks.find(rank.rank)->refusal = view.at("refusal").text();
  if (has_value(view, "decisions")) record_.ranks.find(rank.rank)->decisions = view.at("decisions").integer();
  if (finished) record_.ranks.finish(rank.rank);
}

/// Plans, cells and reports, as they came.
void Job::restore_progress(const StoreContents& rows, double now_s, std::vector<std::string>& left_out) {
  const auto counted = rows.counted.find(record_.id);
  if (counted != rows.counted.end()) record_.usage.restore(counted->second);
  for_intact(rows.plans, left_out, [&](const StoredPlan& row) {
    PlanVersion version = read_plan_version(row.document);
    if (version.version != row.version) throw InputError("its version is not that of the plan");
    record_.plans.restore(std::move(version));
  });
  if (record_.plans.newest() == nullptr && !rows.plans.empty()) throw InputError("all of its plans are damaged");
  for_intact(rows.cells, left_out, [&](const StoredCells& row) {
    const Json document = parse_json(row.document, "cells");
    const protocol::RankCells cells = protocol::read_rank_cells(JsonView(document, "cells"), layout_.schedule.stages);
    require_rank(record_.ranks, cells.rank, row.rank);
    (void)sweep().add(cells);
  });
  for_intact(rows.reports, left_out, [&](const StoredReports& row) {
    const Json document = parse_json(row.document, "reports");
    const protocol::RankReports reports = protocol::read_rank_reports(JsonView(document, "reports"));
    require_rank(record_.ranks, reports.rank, row.rank);
    (void)record_.history.restore(reports, record_.status.created_s);
    collect_restored(now_s);
  });
  // Not before: iterations whose reports are still to be read would not wait for these ranks.
  for (int rank = 0; rank < record_.ranks.size(); ++rank) {
    const RegisteredRank* registered = record_.ranks.find(rank);
    if (registered != nullptr && registered->finished) record_.history.finish(rank);
  }
  if (record_.is_over()) record_.history.end();
  collect_restored(now_s);
}

void Job::collect_restored(double now_s) {
  while (const auto iteration = record_.history.next(record_.status.created_s)) {
    if (record_.usage.is_restored()) count_usage(*iteration, now_s);
    collect(*iteration);
  }
}

/// A job that was about to be planned for by a profile that the store does not have any more.
void Job::replace_lost_profile(double now_s) {
  const bool needs_it =
      record_.status.state == JobState::planning || (record_.status.state == JobState::baseline && !sweep().is_new());
  if (!needs_it) return;
  if (!record_.spec.profiling) return observe("the profile for its plan is lost", now_s);
  begin_profile(now_s);
}

/// What was under way when the server ended.
void Job::resume(const Profiles& profiles, double now_s) {
  if (record_.status.state == JobState::registering) return;  // profiles are looked at once all ranks are there
  const bool led_to_no_profile = record_.status.state == JobState::observing && !record_.status.plan_failed;
  if (!sweep().measured().empty() && record_.status.state != JobState::profiling && !led_to_no_profile) {
    try {
      record_.profiling.merge(layout_.schedule.stages, record_.ranks.simulated());
    } catch (const InputError&) {
      // No profile came of it, as was decided then.
    }
  }
  if (record_.status.state == JobState::profiling) {
    return record_.baseline.result() && sweep().rounds() > 0 ? end_trials(now_s) : begin_profile(now_s);
  }
  const auto known = profiles.find(profile_key(record_));
  if (record_.profiling.own()) {
    use_profile(record_.profiling.own());
  } else if (known != profiles.end()) {
    // It may have become known as the server ended.
    if (record_.status.state == JobState::observing && !record_.status.plan_failed) {
      // Not after drift: the job was to be profiled again as this one does not fit it any more.
      if (sweep().first_version() <= 1) profile_found(known->second, now_s);
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
  job->record_.status.finished_s = stored.finished_s;
  job->record_.status.heard_s = now_s;
  job->restore_state(view);
  for (const StoredRank& row : rows.ranks) job->restore_rank(row, now_s);
  job->record_.profiling.restore(view, job->record_.spec, job->record_.baseline.result());
  std::vector<std::string> damaged;
  job->restore_progress(rows, now_s, damaged);
  if (left_out != nullptr) *left_out = std::move(damaged);
  job->record_.plans.restore_numbers(view);
  job->record_.profiling.resume_version(view, now_s);
  job->outbox_.state_has_changed = false;
  if (!job->record_.is_over()) job->resume(profiles, now_s);
  return job;
}

}  // namespace lowgear::server

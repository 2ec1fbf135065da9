#include "server/job/job_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"

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

StoredRank stored_rank(const JobRecord& job, const RegisteredRank& rank) {
  Json document = to_json(rank.spec);
  document["key"] = rank.key;
  document["finished"] = rank.finished;
  if (!rank.failure.empty()) {
    document["failure"] = rank.failure;
    document["failure_number"] = rank.failure_number;
  }
  if (!rank.refusal.empty()) document["refusal"] = rank.refusal;
  if (rank.decisions > 0) document["decisions"] = rank.decisions;
  return {job.id, rank.spec.rank, document.dump()};
}

StoredReports stored_reports(const JobRecord& job, const protocol::RankReports& reports, std::size_t begin,
                             std::size_t end) {
  protocol::RankReports part = reports;
  part.reports.assign(reports.reports.begin() + static_cast<std::ptrdiff_t>(begin),
                      reports.reports.begin() + static_cast<std::ptrdiff_t>(end));
  return {.job = job.id,
          .rank = reports.rank,
          .first_iteration = part.reports.front().iteration,
          .last_iteration = part.reports.back().iteration,
          .document = to_json(part).dump(),
          .reached = std::max<std::int64_t>(job.history.latest(), 0)};
}

StoredJob stored_job(const JobRecord& job, std::int64_t decisions) {
  Json state = Json::object();
  for (const char* member : kStateMembers) state[member] = nullptr;
  state["state"] = name(job.status.state);
  state["reason"] = job.status.reason;
  state["plan_failed"] = job.status.plan_failed;
  state["decisions"] = decisions;
  state["is_capped"] = job.watch.guard().is_capped();
  state["retry_s"] = or_null(job.status.retry_s);
  state["policy"] = name(job.policy);
  if (job.work) state["work"] = to_json(*job.work);
  if (!job.invalid.empty()) state["invalid"] = job.invalid;
  job.targets.write_state(state);
  job.watch.profile().write_state(state);
  job.plans.write_state(state);
  job.baseline.write_state(state);
  job.profiling.write_state(state);
  job.order.write_state(state);
  job.envpipe.write_state(state);
  return {.id = job.id,
          .run = job.spec.run,
          .spec = to_json(job.spec).dump(),
          .state = state.dump(),
          .created_s = job.status.created_s,
          .finished_s = job.status.finished_s};
}

namespace {

void restore_state(JobRecord& job, const JsonView& state) {
  job.status.state = read_state(state.at("state"));
  job.status.reason = state.at("reason").text();
  job.status.plan_failed = has_value(state, "plan_failed") && state.at("plan_failed").boolean();
  if (has_value(state, "retry_s")) job.status.retry_s = state.at("retry_s").number();
  if (has_value(state, "policy")) {
    const auto policy = protocol::find_job_policy(state.at("policy").text());
    if (!policy) state.at("policy").fail("is no policy");
    job.policy = *policy;
  }
  if (has_value(state, "work")) job.work = protocol::read_job_work(state.at("work"));
  if (has_value(state, "invalid")) job.invalid = state.at("invalid").text();
  job.watch.guard().restore(has_value(state, "is_capped") && state.at("is_capped").boolean());
  job.order.restore(state);
  job.targets.restore(state);
  job.watch.profile().restore(state);
  job.baseline.restore(state);
  if (job.spec.envpipe) job.envpipe.restore(state);
}

void restore_rank(JobRecord& job, const StoredRank& row, double now_s) {
  const Json document = parse_json(row.document, "rank");
  const JsonView view(document, "rank");
  Json spec = document;
  const std::string key = view.at("key").text();
  const bool finished = view.at("finished").boolean();
  spec.erase("key");
  spec.erase("finished");
  spec.erase("failure");
  spec.erase("failure_number");
  spec.erase("refusal");
  spec.erase("decisions");
  const protocol::RankSpec rank = read_rank_spec(JsonView(spec, "rank"), job.spec.parallel);
  (void)job.ranks.add(rank, key, now_s);
  job.count_gpu_once(rank.rank);
  if (has_value(view, "refusal")) job.ranks.find(rank.rank)->refusal = view.at("refusal").text();
  if (has_value(view, "decisions")) job.ranks.find(rank.rank)->decisions = view.at("decisions").integer();
  if (finished && has_value(view, "failure")) {
    job.ranks.restore_failure(rank.rank, view.at("failure").text(),
                              view.at("failure_number").integer_in(1, kMaxStoredNumber));
  } else if (finished) {
    (void)job.ranks.finish(rank.rank);
  }
}

void collect_restored(RestoredJob& restored, double now_s) {
  JobRecord& job = restored.record;
  while (const auto iteration = job.history.next(job.status.created_s)) {
    if (job.usage.is_restored()) job.count_usage(*iteration, now_s, restored.usage);
    job.collect(*iteration);
  }
}

void restore_plans(RestoredJob& restored, const StoreContents& rows) {
  PlanDelivery& plans = restored.record.plans;
  for_intact(rows.plans, restored.left_out, [&](const StoredPlan& row) {
    PlanVersion version = read_plan_version(row.document);
    if (version.version != row.version) throw InputError("its version is not that of the plan");
    plans.restore(std::move(version));
  });
  if (plans.newest() == nullptr && !rows.plans.empty()) throw InputError("all of its plans are damaged");
}

void restore_measurements(RestoredJob& restored, const StoreContents& rows, double now_s) {
  JobRecord& job = restored.record;
  for_intact(rows.cells, restored.left_out, [&](const StoredCells& row) {
    const Json document = parse_json(row.document, "cells");
    const protocol::RankCells cells = protocol::read_rank_cells(JsonView(document, "cells"), job.layout.stages());
    require_rank(job.ranks, cells.rank, row.rank);
    (void)job.profiling.add(cells);
  });
  for_intact(rows.reports, restored.left_out, [&](const StoredReports& row) {
    const Json document = parse_json(row.document, "reports");
    const protocol::RankReports reports = protocol::read_rank_reports(JsonView(document, "reports"));
    require_rank(job.ranks, reports.rank, row.rank);
    (void)job.history.restore(reports, job.status.created_s);
    collect_restored(restored, now_s);
  });
  // Not before: iterations whose reports are still to be read would not wait for these ranks.
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered != nullptr && registered->finished) job.finish_reports(rank);
  }
  if (job.is_over()) job.history.end();
  collect_restored(restored, now_s);
}

}  // namespace

RestoredJob restore_job(const StoredJob& stored, const StoreContents& rows, double now_s) {
  const Json spec = parse_json(stored.spec, "job");
  RestoredJob restored{.record = JobRecord(stored.id, protocol::read_job_spec(JsonView(spec, "job")), stored.created_s,
                                           protocol::JobPolicy::lowgear),
                       .decisions = 0,
                       .usage = {},
                       .left_out = {}};
  JobRecord& job = restored.record;
  const Json state = parse_json(stored.state, "state");
  const JsonView view(state, "state");
  job.status.finished_s = stored.finished_s;
  job.status.heard_s = now_s;
  restored.decisions = view.at("decisions").integer();
  restore_state(job, view);
  for (const StoredRank& row : rows.ranks) restore_rank(job, row, now_s);
  job.profiling.restore(view, job.spec, job.baseline.result());
  const auto counted = rows.counted.find(job.id);
  if (counted != rows.counted.end()) job.usage.restore(counted->second);
  restore_plans(restored, rows);
  restore_measurements(restored, rows, now_s);
  job.plans.restore_numbers(view);
  job.profiling.resume_version(view, now_s);
  return restored;
}

}  // namespace lowgear::server

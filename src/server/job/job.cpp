#include "server/job/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/job/job_problems.h"

namespace lowgear::server {
namespace {

/// From the time when no rank follows plans to the next attempt; at once when one does again.
constexpr double kRefusedRetryS = 3'600;

}  // namespace

Job::Job(std::string id, protocol::JobSpec spec, double created_s, protocol::JobPolicy servers)
    : record_(std::move(id), std::move(spec), created_s, servers) {
  layout_.schedule = make_schedule(record_.spec);
  layout_.rank_of_stage = rank_of_stage(layout_.schedule);
  outbox_.changes.summary_changed = true;
}

RankRegistration Job::register_rank(const protocol::RankSpec& rank, std::string rank_key, const Profiles& profiles,
                                    double now_s) {
  RankRegistration registration = record_.ranks.add(rank, std::move(rank_key), now_s);
  if (!registration.key.empty()) record_.status.heard_s = now_s;
  // The process that was this rank is gone: ranks of the next start may be among those of this one.
  if (registration.outcome == RankRegistration::Outcome::taken &&
      now_s - record_.ranks.find(rank.rank)->heard_s >= kLeftS) {
    lose(kStartedAgain, now_s);
  }
  if (registration.outcome != RankRegistration::Outcome::created) return registration;
  store_rank(*record_.ranks.find(rank.rank));
  count_gpu_once(rank.rank);
  outbox_.changes.gpus_taken.push_back(rank.rank);
  outbox_.changes.summary_changed = true;
  if (record_.ranks.complete()) begin(profiles, now_s);
  return registration;
}

void Job::begin(const Profiles& profiles, double now_s) {
  if (record_.ranks.common_clocks().empty()) {
    return observe("no clock can be set on the ranks of every stage: no agent, or different GPUs", now_s);
  }
  const auto known = profiles.find(profile_key(record_));
  if (known != profiles.end()) return profile_found(known->second, now_s);
  report_assumed_order(now_s);
  if (!record_.spec.profiling) return observe("there is no profile of this model yet", now_s);
  begin_profile(now_s);
}

void Job::observe(std::string reason, double now_s, std::optional<double> retry_after_s) {
  decide("observe", reason, now_s);
  record_.status.plan_failed = false;
  record_.profiling.set_judging(false);
  record_.status.retry_s = retry_after_s ? std::optional(now_s + *retry_after_s) : std::nullopt;
  change_state(JobState::observing, std::move(reason));
  // From now on nothing watches what a plan costs.
  if (record_.plans.newest() == nullptr || record_.plans.newest()->purpose == protocol::PlanPurpose::baseline) return;
  issue_uniform(protocol::PlanPurpose::train, full_clock_mhz(), "full clocks: " + record_.status.reason, now_s);
}

void Job::try_again(double now_s) {
  if (record_.status.state != JobState::observing || !record_.status.retry_s || now_s < *record_.status.retry_s) return;
  if (record_.ranks.followers() == 0) return;
  record_.status.retry_s.reset();
  if (record_.status.plan_failed) return replan("planning is tried again");
  if (planning_.model || !record_.spec.profiling) return begin_baseline(now_s);
  decide("profile", "profiling is tried again, because the last attempt gave no profile", now_s);
  begin_profile(now_s);
}

void Job::report(const protocol::RankReports& reported, double now_s, std::optional<double> most_w) {
  RegisteredRank& rank = *record_.ranks.find(reported.rank);
  if (!record_.is_over()) record_.history.require_plausible(reported, now_s);
  rank.agent_most_w = most_w;
  const protocol::RankReports reports = judged(reported, now_s);
  rank.heard_s = record_.status.heard_s = now_s;
  rank.gpu = reports.gpu;
  outbox_.changes.gpus_heard.push_back(reports.rank);
  if (record_.is_over()) return;
  if (rank.refusal != reports.refusal) take_refusal(rank, reports.refusal, now_s);
  if (reports.reports.empty()) return;
  const std::size_t added = record_.history.add(reports, now_s);
  store_reports(reports, reports.reports.size() - added);
  if (added == 0) return;
  if (rank.spec.pp_rank == 0 && rank.spec.dp_rank == 0 && rank.spec.tp_rank == 0) {
    record_.begins.add(reports, now_s);
  }
  rank.last = reports.reports.back();
  take_iterations(now_s);
  watch_baseline(now_s);
  watch_profile(now_s);
  try_again(now_s);
}

/// Those that are complete by now.
void Job::take_iterations(double now_s) {
  while (const auto iteration = record_.history.next(now_s)) {
    count(*iteration, now_s);
    react(*iteration, now_s);
  }
}

void Job::count(const JobIteration& iteration, double now_s) {
  count_usage(iteration, now_s);
  collect(iteration);
  const PlanVersion* plan = record_.plans.find(iteration.plan_version);
  record_.activity.iteration(plan == nullptr ? "none" : name(plan->purpose), iteration.time_s, iteration.energy_j);
  outbox_.changes.iterations.push_back(record_.history.kept().back());
  outbox_.changes.summary_changed = true;
}

/// Reports that the rank had sent before have a row of their own: one of the same first iteration would replace it.
void Job::store_reports(const protocol::RankReports& reports, std::size_t repeated) {
  const auto row_of = [&](std::size_t begin, std::size_t end) {
    protocol::RankReports part = reports;
    part.reports.assign(reports.reports.begin() + static_cast<std::ptrdiff_t>(begin),
                        reports.reports.begin() + static_cast<std::ptrdiff_t>(end));
    return StoredReports{.job = record_.id,
                         .rank = reports.rank,
                         .first_iteration = part.reports.front().iteration,
                         .last_iteration = part.reports.back().iteration,
                         .document = to_json(part).dump(),
                         .reached = std::max<std::int64_t>(record_.history.latest(), 0)};
  };
  const std::size_t all = reports.reports.size();
  if (repeated > 0) outbox_.changes.repeated.push_back(row_of(0, repeated));
  if (repeated < all) outbox_.changes.store.reports.push_back(row_of(repeated, all));
}

/// A rank refuses plans from now on, or follows them again. Other ranks continue to follow plans; once no rank does,
/// nothing is planned.
void Job::take_refusal(RegisteredRank& rank, const std::string& refusal, double now_s) {
  rank.refusal = refusal;
  store_rank(rank);
  outbox_.changes.summary_changed = true;
  if (refusal.empty()) {
    const std::string reason = fmt::format("rank {} follows plans again", rank.spec.rank);
    decide("refusal", reason, now_s);
    outbox_.changes.events.push_back({ServerEvent::plans_followed, reason, now_s});
    if (record_.status.state == JobState::observing && record_.status.retry_s) record_.status.retry_s = now_s;
    return;
  }
  const std::string reason = fmt::format("rank {} follows no plans: {}", rank.spec.rank, refusal);
  decide("refusal", reason, now_s);
  outbox_.changes.events.push_back({ServerEvent::plans_refused, reason, now_s});
  if (record_.status.state == JobState::registering) return;
  if (record_.ranks.followers() > 0) return end_trials(now_s);
  ++planning_.serial;  // what is being planned would be followed by no rank
  if (record_.status.state != JobState::observing) observe(reason + "; nor does another rank", now_s, kRefusedRetryS);
}

/// Before the iteration is collected: those of the baseline itself are not compared with it.
void Job::count_usage(const JobIteration& iteration, double now_s) {
  usage::UsageRow names;
  names.job = record_.id;
  names.run = record_.spec.run;
  names.name = record_.spec.name;
  names.user = record_.spec.user.value_or("");
  names.gpu = record_.spec.gpu;
  names.simulated = record_.ranks.simulated();
  // What jobs that share a GPU use together says nothing of what one of them saves.
  const bool compares = !record_.ranks.shares_with_other_jobs();
  record_.usage.add(iteration, names, compares ? record_.baseline.result() : std::nullopt, now_s,
                    outbox_.changes.store.usage);
}

/// What an iteration adds to what is known, with no decision about it.
void Job::collect(const JobIteration& iteration) {
  record_.baseline.add(iteration, record_.plans.find(record_.baseline.plan_version()));
  record_.history.keep(iteration, record_.plans.due_version(iteration.iteration));
}

void Job::react(const JobIteration& iteration, double now_s) {
  if (record_.state() == JobState::baseline && record_.baseline.result()) {
    decide("baseline", fmt::format("full clocks take {:.4g} s per iteration", record_.baseline.result()->time_s),
           now_s);
    guard_.set_baseline(*record_.baseline.result());
    if (sweep().is_new()) return begin_trials(now_s);
    change_state(JobState::planning, "plans");
    ask(PlanningTask::Kind::plan, "planned from an existing profile", false);
  }
  if (record_.status.state == JobState::profiling) watch_trials(iteration, now_s);
  if (record_.status.state == JobState::running) watch_ranks(iteration, now_s);
  if (record_.status.state == JobState::running) watch_drift(iteration, now_s);
  // Not once the ranks have begun to be profiled anew: they would leave those clocks for the guard's.
  if (record_.status.state == JobState::running) watch_slowdown(iteration, now_s);
  if (record_.status.state == JobState::running) watch_envpipe(iteration);
}

void Job::add_decisions(const protocol::RankDecisions& reported, double now_s) {
  RegisteredRank& rank = *record_.ranks.find(reported.rank);
  rank.heard_s = record_.status.heard_s = now_s;
  if (record_.is_over()) return;
  if (reported.work && reported.work != record_.work) {
    record_.work = reported.work;
    outbox_.state_has_changed = outbox_.changes.summary_changed = true;
  }
  const std::int64_t before = rank.decisions;
  for (const protocol::TrainingDecision& made : reported.decisions) {
    if (made.number <= rank.decisions) continue;
    rank.decisions = made.number;
    Json decision = next_decision("technique", made.reason, std::max(record_.status.created_s, now_s - made.age_s));
    decision["rank"] = reported.rank;
    decision["technique"] = made.technique;
    decision["change"] = made.change;
    decision["from_iteration"] = made.from_iteration;
    decision["configuration"] = made.configuration;
    keep(std::move(decision));
  }
  if (rank.decisions != before) store_rank(rank);
}

void Job::finish_rank(int rank, double now_s) {
  if (!record_.ranks.finish(rank)) return;
  store_rank(*record_.ranks.find(rank));
  record_.history.finish(rank);
  outbox_.changes.gpus_left.push_back(rank);
  if (record_.ranks.all_finished()) return finish("all ranks have ended", now_s);
  take_iterations(now_s);
  end_trials(now_s);
}

void Job::end(ServerEvent event, std::string_view why, double now_s) {
  if (record_.is_over()) return;
  outbox_.changes.events.push_back({event, std::string(why), now_s});
  for (int rank = 0; rank < record_.ranks.size(); ++rank) {
    const RegisteredRank* registered = record_.ranks.find(rank);
    if (registered != nullptr && !registered->finished) outbox_.changes.gpus_left.push_back(rank);
  }
  record_.status.finished_s = now_s;
  record_.history.end();
  while (const auto iteration = record_.history.next(now_s)) count(*iteration, now_s);
  if (const auto& left_out = record_.history.left_out()) decide("reports", text_of(*left_out), now_s);
  decide("finish", std::string(why), now_s);
  change_state(JobState::finished, std::string(why));
}

void finish_if_silent(Job& job, double now_s, double silence_s) {
  if (now_s - job.record().status.heard_s < silence_s) return;
  job.lose(fmt::format("no rank has sent a request for {:.0f} s", silence_s), now_s);
}

std::int64_t Job::decide(std::string_view kind, const std::string& reason, double now_s) {
  keep(next_decision(kind, reason, now_s));
  return outbox_.decisions;
}

Json Job::next_decision(std::string_view kind, const std::string& reason, double time_s) const {
  return {{"id", outbox_.decisions + 1},
          {"time_s", time_s},
          {"kind", kind},
          {"plan_version", record_.plan_version() == 0 ? Json(nullptr) : Json(record_.plan_version())},
          {"reason", reason}};
}

void Job::keep(Json decision) {
  outbox_.state_has_changed = true;
  outbox_.changes.store.decisions.push_back(
      {record_.id, ++outbox_.decisions, decision["time_s"].get<double>(), decision.dump()});
  outbox_.changes.decisions.push_back(std::move(decision));
}

void Job::change_state(JobState state, std::string reason) {
  record_.status.state = state;
  record_.status.reason = std::move(reason);
  outbox_.state_has_changed = true;
  outbox_.changes.summary_changed = true;
}

void Job::store_again(const std::set<int>& ranks) {
  outbox_.state_has_changed = true;
  for (const int rank : ranks) store_rank(*record_.ranks.find(rank));
}

JobChanges Job::take_changes() {
  JobChanges changes = std::exchange(outbox_.changes, {});
  if (std::exchange(outbox_.state_has_changed, false)) changes.store.jobs.push_back(stored());
  return changes;
}

}  // namespace lowgear::server

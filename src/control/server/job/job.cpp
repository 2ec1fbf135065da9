#include "control/server/job/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lowgear {
namespace {

constexpr auto kStates = std::to_array<std::string_view>(
    {"registering", "baseline", "profiling", "planning", "running", "observing", "finished"});

/// From the time when no rank follows plans to the next attempt; at once when one does again.
constexpr double kRefusedRetryS = 3'600;

}  // namespace

std::string_view name(JobState state) { return kStates[static_cast<std::size_t>(state)]; }

Job::Job(std::string id, JobSpec spec, double created_s)
    : about_{.id = std::move(id),
             .spec = std::move(spec),
             .schedule = make_schedule(about_.spec),
             .rank_of_stage = rank_of_stage(about_.schedule),
             .created_s = created_s},
      ranks_(about_.spec.parallel),
      heard_{.last_s = created_s, .gpu_changes = {}},
      history_(about_.spec.parallel.world_size()),
      watch_(about_.spec.parallel.world_size()),
      targets_(about_.spec) {
  outbox_.changes.summary_changed = true;
}

RankRegistration Job::register_rank(const RankSpec& rank, std::string rank_key, const Profiles& profiles,
                                    double now_s) {
  heard_.last_s = now_s;
  RankRegistration registration = ranks_.add(rank, std::move(rank_key), now_s);
  if (registration.outcome != RankRegistration::Outcome::created) return registration;
  store_rank(*ranks_.find(rank.rank));
  outbox_.changes.summary_changed = true;
  if (ranks_.complete()) begin(profiles, now_s);
  return registration;
}

void Job::begin(const Profiles& profiles, double now_s) {
  if (ranks_.common_clocks().empty()) {
    return observe("no clock that every stage's ranks can be set to: no agent, or different GPUs", now_s);
  }
  const auto known = profiles.find(profile_key());
  if (known != profiles.end()) return profile_found(known->second, now_s);
  if (!spec().profiling) return observe("there is no profile of this model yet", now_s);
  begin_profile(now_s);
}

void Job::observe(std::string reason, double now_s, std::optional<double> retry_after_s) {
  decide("observe", reason, now_s);
  status_.plan_failed = false;
  profiling_.set_judging(false);
  status_.retry_s = retry_after_s ? std::optional(now_s + *retry_after_s) : std::nullopt;
  change_state(JobState::observing, std::move(reason));
  // From now on nothing watches what a plan costs.
  if (plans_.newest() == nullptr || plans_.newest()->purpose == PlanPurpose::baseline) return;
  issue_uniform(PlanPurpose::train, full_clock_mhz(), "full clocks: " + status_.reason, now_s);
}

void Job::try_again(double now_s) {
  if (status_.state != JobState::observing || !status_.retry_s || now_s < *status_.retry_s) return;
  if (ranks_.followers() == 0) return;
  status_.retry_s.reset();
  if (status_.plan_failed) return replan("what could not be planned is tried again");
  if (planning_.model || !spec().profiling) return begin_baseline(now_s);
  decide("profile", "clocks are tried out again, as the last time led to no profile", now_s);
  begin_profile(now_s);
}

void Job::report(const RankReports& reports, double now_s) {
  RegisteredRank& rank = *ranks_.find(reports.rank);
  rank.heard_s = heard_.last_s = now_s;
  rank.gpu = reports.gpu;
  if (heard_.gpu_changes.size() < kGpuChanges) heard_.gpu_changes.insert(reports.rank);
  if (is_over()) return;
  if (rank.refusal != reports.refusal) take_refusal(rank, reports.refusal, now_s);
  if (reports.reports.empty()) return;
  const bool is_new = history_.add(reports, now_s) > 0;
  auto& rows = is_new ? outbox_.changes.store.reports : outbox_.changes.repeated;
  rows.push_back({.job = id(),
                  .rank = reports.rank,
                  .first_iteration = reports.reports.front().iteration,
                  .last_iteration = reports.reports.back().iteration,
                  .document = to_json(reports).dump(),
                  .reached = std::max<std::int64_t>(history_.latest(), 0)});
  if (!is_new) return;
  rank.last = reports.reports.back();
  while (const auto iteration = history_.next(now_s)) {
    collect(*iteration);
    react(*iteration, now_s);
    const PlanVersion* plan = plans_.find(iteration->plan_version);
    activity_.iteration(plan == nullptr ? "none" : name(plan->purpose), iteration->time_s, iteration->energy_j);
    outbox_.changes.iterations.push_back(history_.kept().back());
    outbox_.changes.summary_changed = true;
  }
  watch_baseline(now_s);
  watch_profile(now_s);
  try_again(now_s);
}

/// A rank refuses plans from now on, or follows them again. Others follow them all the same; what nobody follows is not
/// planned.
void Job::take_refusal(RegisteredRank& rank, const std::string& refusal, double now_s) {
  rank.refusal = refusal;
  store_rank(rank);
  outbox_.changes.summary_changed = true;
  if (refusal.empty()) {
    decide("refusal", fmt::format("rank {} follows plans again", rank.spec.rank), now_s);
    if (status_.state == JobState::observing && status_.retry_s) status_.retry_s = now_s;
    return;
  }
  const std::string reason = fmt::format("rank {} follows no plans: {}", rank.spec.rank, refusal);
  decide("refusal", reason, now_s);
  if (status_.state == JobState::registering) return;
  if (ranks_.followers() > 0) return end_trials(now_s);
  ++planning_.serial;  // what is being planned would be followed by no rank
  if (status_.state != JobState::observing) observe(reason + "; nor does another rank", now_s, kRefusedRetryS);
}

/// What an iteration adds to what is known, with no decision about it.
void Job::collect(const JobIteration& iteration) {
  baseline_.add(iteration, plans_.find(baseline_.plan_version()));
  history_.keep(iteration, plans_.due_version(iteration.iteration));
}

void Job::react(const JobIteration& iteration, double now_s) {
  if (state() == JobState::baseline && baseline_.result()) {
    decide("baseline", fmt::format("full clocks take {:.4g} s an iteration", baseline_.result()->time_s), now_s);
    guard_.set_baseline(*baseline_.result());
    if (profiling_.sweep().is_new()) return begin_trials(now_s);
    change_state(JobState::planning, "plans");
    ask(PlanningTask::Kind::plan, "planned from a profile that was known", false);
  }
  if (status_.state == JobState::profiling) watch_trials(iteration, now_s);
  if (status_.state == JobState::running) watch_ranks(iteration, now_s);
  if (status_.state == JobState::running) watch_drift(iteration, now_s);
  // Not once the ranks have begun to be profiled anew: they would leave those clocks for the guard's.
  if (status_.state == JobState::running) watch_slowdown(iteration, now_s);
}

void Job::finish_rank(int rank, double now_s) {
  if (!ranks_.finish(rank)) return;
  store_rank(*ranks_.find(rank));
  history_.finish(rank);
  if (ranks_.all_finished()) return finish("all ranks have ended", now_s);
  end_trials(now_s);
}

void Job::finish(std::string_view why, double now_s) {
  if (is_over()) return;
  status_.finished_s = now_s;
  decide("finish", std::string(why), now_s);
  change_state(JobState::finished, std::string(why));
}

void Job::end_if_silent(double now_s, double silence_s) {
  if (is_over() || now_s - heard_.last_s < silence_s) return;
  finish(fmt::format("no rank has been heard of for {:.0f} s", silence_s), now_s);
}

std::int64_t Job::decide(std::string_view kind, const std::string& reason, double now_s) {
  Json decision = {{"id", ++outbox_.decisions},
                   {"time_s", now_s},
                   {"kind", kind},
                   {"plan_version", plan_version() == 0 ? Json(nullptr) : Json(plan_version())},
                   {"reason", reason}};
  outbox_.state_has_changed = true;
  outbox_.changes.store.decisions.push_back({id(), outbox_.decisions, now_s, decision.dump()});
  outbox_.changes.decisions.push_back(std::move(decision));
  return outbox_.decisions;
}

void Job::change_state(JobState state, std::string reason) {
  status_.state = state;
  status_.reason = std::move(reason);
  outbox_.state_has_changed = true;
  outbox_.changes.summary_changed = true;
}

std::vector<int> Job::take_gpu_changes() {
  const std::set<int> ranks = std::exchange(heard_.gpu_changes, {});
  return {ranks.begin(), ranks.end()};
}

void Job::store_again(const std::set<int>& ranks) {
  outbox_.state_has_changed = true;
  for (const int rank : ranks) store_rank(*ranks_.find(rank));
}

JobChanges Job::take_changes() {
  JobChanges changes = std::exchange(outbox_.changes, {});
  if (std::exchange(outbox_.state_has_changed, false)) changes.store.jobs.push_back(stored());
  return changes;
}

}  // namespace lowgear

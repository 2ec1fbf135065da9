#include "server/job/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "server/job/job_problems.h"
#include "server/job/job_storage.h"
#include "server/job/job_transitions.h"
#include "server/job/reported_energy.h"

namespace lowgear::server {
namespace {

/// Of a job whose other ranks have not come.
std::string text_of_left(const RankRegistry& ranks) {
  return fmt::format("{} of {} ranks had registered, and ended", ranks.registered(), ranks.size());
}

/// Why a job that ends follows no plan at its end, which its state says no more then; empty: it does, or is not planned
/// by the server.
std::string text_of_unplanned(const JobRecord& job) {
  if (job.plans_itself()) return "";
  if (job.state() == JobState::observing) return "no plan was followed at the end: " + job.status.reason;
  const PlanVersion* newest = job.plans.newest();
  if (job.state() == JobState::running && newest != nullptr && newest->purpose == protocol::PlanPurpose::full_clocks) {
    return "no plan was followed at the end: " + newest->reason;
  }
  return "";
}

/// A job that follows no plan as it was too short for one says so.
std::string text_of_end(const JobRecord& job) {
  if (job.state() >= JobState::running || job.plans.training() != nullptr) return "all ranks have ended";
  return fmt::format("all ranks have ended before the first plan, in state {}", name(job.state()));
}

}  // namespace

Job::Job(JobRecord record) : record_(std::move(record)), outbox_(record_.id) {}

Job::Job(std::string id, protocol::JobSpec spec, double created_s, protocol::JobPolicy servers)
    : Job(JobRecord(std::move(id), std::move(spec), created_s, servers)) {}

std::unique_ptr<Job> Job::restore(const StoredJob& stored, const StoreContents& rows, const MeasuredProfiles& profiles,
                                  double now_s, std::vector<std::string>* left_out) {
  RestoredJob restored = restore_job(stored, rows, now_s);
  if (left_out != nullptr) *left_out = std::move(restored.left_out);
  std::unique_ptr<Job> job(new Job(std::move(restored.record)));
  job->outbox_.restore(restored.decisions, job->record_.plan_version());
  job->outbox_.changes().store.usage = std::move(restored.usage);
  if (!job->record_.is_over()) JobTransitions(job->record_, job->outbox_, now_s).resume(profiles);
  return job;
}

RankRegistration Job::register_rank(const protocol::RankSpec& rank, std::string rank_key,
                                    const MeasuredProfiles& profiles, double now_s) {
  RankRegistration registration = record_.ranks.add(rank, std::move(rank_key), now_s);
  if (!registration.key.empty()) record_.status.heard_s = now_s;
  // The process that was this rank is gone: ranks of the next start may be among those of this one.
  if (registration.outcome == RankRegistration::Outcome::taken &&
      now_s - record_.ranks.find(rank.rank)->heard_s >= kLeftS) {
    lose(kStartedAgain, now_s);
  }
  if (registration.outcome != RankRegistration::Outcome::created) return registration;
  outbox_.changes().store.ranks.push_back(stored_rank(record_, *record_.ranks.find(rank.rank)));
  record_.count_gpu_once(rank.rank);
  outbox_.changes().gpus_taken.push_back(rank.rank);
  outbox_.change_summary();
  if (record_.state() == JobState::registering && !record_.status.reason.empty()) {
    JobTransitions(record_, outbox_, now_s).enter(JobState::registering, {});
  }
  if (record_.ranks.complete()) JobTransitions(record_, outbox_, now_s).begin(profiles);
  return registration;
}

void Job::report(const protocol::RankReports& reported, double now_s, std::optional<double> most_w) {
  RegisteredRank& rank = *record_.ranks.find(reported.rank);
  if (!record_.is_over()) record_.history.require_plausible(reported, now_s);
  rank.agent_most_w = most_w;
  const JudgedReports judged =
      judge(reported, rank,
            {.iteration = record_.history.last_iteration(reported.rank), .plan_version = record_.plan_version()});
  for (const std::string_view why : judged.left_out) record_.activity.energy_left_out(why);
  if (!judged.decision.empty()) {
    outbox_.change_summary();
    outbox_.decide("energy", judged.decision, now_s);
  }
  const protocol::RankReports& reports = judged.reports;
  rank.heard_s = record_.status.heard_s = now_s;
  rank.gpu = reports.gpu;
  outbox_.changes().gpus_heard.push_back(reports.rank);
  if (record_.is_over()) return;
  if (rank.refusal != reports.refusal) take_refusal(rank, reports.refusal, now_s);
  if (reports.reports.empty()) return;
  const std::size_t all = reports.reports.size();
  const std::size_t added = record_.history.add(reports, now_s);
  // Reports that the rank had sent before have a row of their own: one of the same first iteration would replace it.
  if (added < all) outbox_.changes().repeated.push_back(stored_reports(record_, reports, 0, all - added));
  if (added == 0) return;
  outbox_.changes().store.reports.push_back(stored_reports(record_, reports, all - added, all));
  if (rank.spec.pp_rank == 0 && rank.spec.dp_rank == 0 && rank.spec.tp_rank == 0) record_.begins.add(reports, now_s);
  rank.last = reports.reports.back();
  take_iterations(now_s);
  JobTransitions(record_, outbox_, now_s).watch();
}

/// Those that are complete by now.
void Job::take_iterations(double now_s) {
  while (auto iteration = record_.history.next(now_s)) {
    iteration->is_shared = record_.ranks.shares_with_other_jobs();
    count(*iteration, now_s);
    JobTransitions(record_, outbox_, now_s).take(*iteration);
  }
}

void Job::count(const JobIteration& iteration, double now_s) {
  record_.count_usage(iteration, now_s, outbox_.changes().store.usage);
  record_.collect(iteration);
  const PlanVersion* plan = record_.plans.find(iteration.plan_version);
  // In metrics full clocks in place of a plan are training: they count against what plans save.
  const bool trains = plan != nullptr && protocol::is_for_training(plan->purpose);
  record_.activity.iteration(plan == nullptr ? "none" : name(trains ? protocol::PlanPurpose::train : plan->purpose),
                             iteration.time_s, iteration.energy_j);
  outbox_.changes().iterations.push_back(record_.history.kept().back());
  outbox_.change_summary();
}

/// A rank refuses plans from now on, or follows them again. Other ranks continue to follow plans; once no rank does,
/// nothing is planned. A rank that was registered as one that follows none only says why.
void Job::take_refusal(RegisteredRank& rank, const std::string& refusal, double now_s) {
  rank.refusal = refusal;
  outbox_.changes().store.ranks.push_back(stored_rank(record_, rank));
  outbox_.change_summary();
  if (refusal.empty()) {
    if (!rank.spec.follows_plans) return;
    const std::string reason = fmt::format("rank {} follows plans again", rank.spec.rank);
    outbox_.decide("refusal", reason, now_s);
    outbox_.send(ServerEvent::plans_followed, reason, now_s);
    if (record_.state() == JobState::observing && record_.status.retry_s) record_.status.retry_s = now_s;
    return;
  }
  const std::string reason = fmt::format("rank {} follows no plans: {}", rank.spec.rank, refusal);
  outbox_.decide("refusal", reason, now_s);
  outbox_.send(ServerEvent::plans_refused, reason, now_s);
  if (record_.state() == JobState::registering || !rank.spec.follows_plans) return;
  JobTransitions transitions(record_, outbox_, now_s);
  const bool is_measured = record_.state() == JobState::baseline || record_.state() == JobState::profiling;
  const bool measures_every_stage = !is_measured || record_.ranks.text_of_refusing_stage().empty();
  if (record_.ranks.followers() > 0 && measures_every_stage) return transitions.end_trials();
  transitions.lose_followers(reason);
}

void Job::add_cells(const protocol::RankCells& posted, double now_s) {
  const PlanVersion* plan = record_.plans.find(posted.plan_version);
  if (plan == nullptr || plan->purpose != protocol::PlanPurpose::profile) {
    throw InputError(fmt::format("$.plan_version: {} is not the version of a plan for profiling", posted.plan_version));
  }
  RegisteredRank& rank = *record_.ranks.find(posted.rank);
  record_.layout.require_own_stages(posted, rank.spec.pp_rank);
  const auto [cells, decision] = judge(posted, rank);
  if (!decision.empty()) outbox_.decide("energy", decision, now_s);
  rank.heard_s = record_.status.heard_s = now_s;
  if (!record_.profiling.add(cells)) return;
  const TrialSweep& sweep = record_.profiling.sweep();
  outbox_.changes().store.cells.push_back(
      {record_.id, cells.rank, cells.plan_version, to_json(cells).dump(), sweep.first_version()});
  if (cells.plan_version == sweep.round().plan_version) JobTransitions(record_, outbox_, now_s).end_trials();
}

void Job::add_decisions(const protocol::RankDecisions& reported, double now_s) {
  RegisteredRank& rank = *record_.ranks.find(reported.rank);
  rank.heard_s = record_.status.heard_s = now_s;
  if (record_.is_over()) return;
  if (reported.work && reported.work != record_.work) {
    record_.work = reported.work;
    outbox_.change_state();
    outbox_.change_summary();
  }
  const std::int64_t before = rank.decisions;
  for (const protocol::TrainingDecision& made : reported.decisions) {
    if (made.number <= rank.decisions) continue;
    rank.decisions = made.number;
    take_validity(made, now_s);
    outbox_.add_training_decision(reported.rank, made, std::max(record_.status.created_s, now_s - made.age_s));
  }
  if (rank.decisions != before) outbox_.changes().store.ranks.push_back(stored_rank(record_, rank));
}

/// Figures of a simulated job whose kernels are too short look like any others.
void Job::take_validity(const protocol::TrainingDecision& made, double now_s) {
  if (made.technique != "simulated_gpu" || (made.change != "invalid" && made.change != "valid")) return;
  if (record_.invalid.empty() && made.change == "invalid") {
    StoredUsage taken_back{.row = {}, .last_iteration = 0, .takes_savings_back = true};
    taken_back.row.job = record_.id;
    outbox_.changes().store.usage.push_back(std::move(taken_back));
  }
  record_.invalid = made.change == "invalid" ? made.reason : "";
  outbox_.change_state();
  outbox_.change_summary();
  if (record_.invalid.empty()) JobTransitions(record_, outbox_, now_s).measure_again();
}

void Job::finish_rank(int rank, double now_s, std::string failure) {
  if (!record_.ranks.finish(rank, failure)) return;
  if (!failure.empty()) {
    outbox_.decide("failure", fmt::format("rank {} failed ({})", rank, failure), now_s);
    outbox_.change_summary();
  }
  outbox_.changes().store.ranks.push_back(stored_rank(record_, *record_.ranks.find(rank)));
  record_.finish_reports(rank);
  outbox_.changes().gpus_left.push_back(rank);
  if (record_.ranks.all_finished()) return finish(text_of_end(record_), now_s);
  if (record_.ranks.none_left()) {
    JobTransitions(record_, outbox_, now_s).enter(JobState::registering, text_of_left(record_.ranks));
  }
  take_iterations(now_s);
  JobTransitions(record_, outbox_, now_s).end_trials();
}

void Job::set_shared(int rank, std::optional<SharedGpu> shared, double now_s) {
  RegisteredRank& registered = *record_.ranks.find(rank);
  if (registered.shared == shared) return;
  const bool before = record_.ranks.shares_with_other_jobs();
  registered.shared = std::move(shared);
  outbox_.change_summary();
  const bool after = record_.ranks.shares_with_other_jobs();
  if (!before && after) outbox_.decide("sharing", registered.shared->text, now_s);
  if (before && !after) outbox_.decide("sharing", "no other job has GPUs of this one any more", now_s);
}

std::shared_ptr<const std::string> Job::plan_after(int rank, int after, double now_s) {
  record_.status.heard_s = now_s;
  RegisteredRank* registered = record_.ranks.find(rank);
  if (registered == nullptr) return nullptr;
  registered->heard_s = now_s;
  return record_.plans.plan_after(registered->spec, after, record_.history, now_s);
}

std::int64_t Job::note(const JobTargets::Change& change, double now_s) {
  if (change.set_by != 0) return change.set_by;
  const std::int64_t decision = outbox_.decide(name(change.target), change.reason, now_s);
  record_.targets.note(change, decision);
  outbox_.change_summary();
  JobTransitions(record_, outbox_, now_s).replan(change.reason);
  return decision;
}

std::int64_t Job::set(const JobTarget& target, double now_s) {
  if (const auto* cap = std::get_if<std::optional<PowerCap>>(&target)) {
    return note(record_.targets.set_power_cap(*cap), now_s);
  }
  if (const auto* slowdown = std::get_if<SlowdownTarget>(&target)) {
    return note(record_.targets.set_settings(slowdown->slowdown_pct, slowdown->guard_pct), now_s);
  }
  const auto& straggler = std::get<StragglerTarget>(target);
  ProfileWatch& watch = record_.watch.profile();
  const bool is_detected = watch.slow().contains(straggler.rank);
  const JobTargets::Change change = record_.targets.set_straggler(straggler.rank, straggler.factor, is_detected);
  if (change.set_by == 0 && straggler.factor == 1) watch.forget(straggler.rank);
  return note(change, now_s);
}

void Job::set_signal(double slowdown_pct, std::string_view why, double now_s) {
  if (record_.is_over() || !record_.targets.set_signal(slowdown_pct)) return;
  outbox_.decide("signal", std::string(why), now_s);
  JobTransitions(record_, outbox_, now_s).replan(std::string(why));
}

void Job::set_budget(double slowdown_pct, std::string_view why, double now_s) {
  if (record_.is_over() || !record_.targets.set_budget(slowdown_pct)) return;
  outbox_.decide("budget", std::string(why), now_s);
  outbox_.change_summary();
  JobTransitions(record_, outbox_, now_s).replan(std::string(why));
}

void Job::profile_found(const std::shared_ptr<const MeasuredProfile>& profile, double now_s) {
  JobTransitions(record_, outbox_, now_s).take(profile);
}

void Job::planned(const PlanningAnswer& answer, double now_s) { JobTransitions(record_, outbox_, now_s).take(answer); }

void Job::end(ServerEvent event, std::string why, double now_s) {
  if (record_.is_over()) return;
  for (const std::string& more : {record_.ranks.text_of_failures(), text_of_unplanned(record_)}) {
    if (!more.empty()) why += "; " + more;
  }
  outbox_.send(event, why, now_s);
  for (int rank = 0; rank < record_.ranks.size(); ++rank) {
    const RegisteredRank* registered = record_.ranks.find(rank);
    if (registered != nullptr && !registered->finished) outbox_.changes().gpus_left.push_back(rank);
  }
  record_.status.finished_s = now_s;
  record_.history.end();
  while (const auto iteration = record_.history.next(now_s)) count(*iteration, now_s);
  if (const auto& left_out = record_.history.left_out()) outbox_.decide("reports", text_of(*left_out), now_s);
  outbox_.decide("finish", why, now_s);
  JobTransitions(record_, outbox_, now_s).enter(JobState::finished, why);
}

void Job::watch_silence(double now_s) {
  if (record_.is_over()) return;
  const bool before = record_.status.is_silent();
  record_.status.watched_s = now_s;
  if (before == record_.status.is_silent()) return;
  outbox_.change_summary();
  if (!before) outbox_.decide("silence", "no rank has sent a request for " + duration_text(kSilentS), now_s);
}

JobChanges Job::take_changes() {
  JobChanges changes = outbox_.take();
  if (outbox_.take_state_change()) changes.store.jobs.push_back(stored_job(record_, outbox_.decisions()));
  return changes;
}

void Job::store_again(const std::set<int>& ranks) {
  outbox_.change_state();
  for (const int rank : ranks) {
    outbox_.changes().store.ranks.push_back(stored_rank(record_, *record_.ranks.find(rank)));
  }
}

void finish_if_silent(Job& job, double now_s, double silence_s) {
  const double silent_s = now_s - job.record().status.heard_s;
  const RankRegistry& ranks = job.record().ranks;
  if (!job.record().is_over() && ranks.none_left() && silent_s >= std::min(kSilentS, silence_s)) {
    return job.finish("ended: " + text_of_left(ranks), now_s);
  }
  job.watch_silence(now_s);
  if (silent_s < silence_s) return;
  job.lose("no rank has sent a request for " + duration_text(silence_s), now_s);
}

}  // namespace lowgear::server

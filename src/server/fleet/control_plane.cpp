#include "server/fleet/control_plane.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "base/core/log.h"
#include "server/job/job_documents.h"

namespace lowgear::server {
namespace {

constexpr double kSummaryPeriodS = 0.2;
/// A rank whose job is over waits so long for its answer, which is not a plan.
constexpr double kLongestLateWaitS = 5;
constexpr std::string_view kProfilePrefix = "profile/";
/// GPUs of one job that events tell of at a time: no person looks at more.
constexpr std::size_t kGpuChanges = 64;

/// The rows of one job, of each kind.
std::map<std::string, StoreContents> by_job(StoreContents all) {
  std::map<std::string, StoreContents> sorted;
  for (StoredRank& row : all.ranks) sorted[row.job].ranks.push_back(std::move(row));
  for (StoredReports& row : all.reports) sorted[row.job].reports.push_back(std::move(row));
  for (StoredPlan& row : all.plans) sorted[row.job].plans.push_back(std::move(row));
  for (StoredCells& row : all.cells) sorted[row.job].cells.push_back(std::move(row));
  for (StoredDecision& row : all.decisions) sorted[row.job].decisions.push_back(std::move(row));
  for (const auto& [job, iteration] : all.counted) sorted[job].counted[job] = iteration;
  return sorted;
}

}  // namespace

ControlPlane::ControlPlane(ControlPlaneEnvironment environment, ControlPlaneLimits limits)
    : environment_(std::move(environment)),
      limits_(limits),
      finished_(limits.kept_jobs),
      store_(environment_.store, environment_.now_s, environment_.log),
      signals_(store_, [this] { follow_signals(); }),
      budgets_(
          store_, [this] { follow_budgets(); }, limits.node_w) {}

void ControlPlane::log(std::string_view text) const {
  if (environment_.log) environment_.log(text);
}

Refused job_is_over() { return {Refusal::job_is_over, "this job is finished: start another run"}; }

void ControlPlane::restore(StoreContents contents) {
  for (const StoredDocument& row : contents.documents) {
    try {
      if (row.key.starts_with(kProfilePrefix)) {
        profiles_[row.key.substr(kProfilePrefix.size())] =
            std::make_shared<const MeasuredProfile>(read_measured_profile(row.document));
      } else {
        (void)(signals_.restore(row) || budgets_.restore(row));
      }
    } catch (const Error& error) {
      log(fmt::format("{}: left out: {}", row.key, error.what()));
    }
  }
  restore_finished(contents);
  std::vector<StoredJob> stored = std::move(contents.jobs);
  std::map<std::string, StoreContents> rows = by_job(std::move(contents));
  for (const StoredJob& row : stored) {
    try {
      auto entry = std::make_unique<Entry>();
      std::vector<std::string> left_out;
      entry->job = Job::restore(row, rows[row.id], profiles_, now_s(), &left_out);
      for (const std::string& damaged : left_out) log(fmt::format("job {}: left out: {}", row.id, damaged));
      entry->committed_version = entry->job->record().plan_version();
      Job& job = *entry->job;
      note_run(row.run, row.id, row.created_s);
      entries_[row.id] = std::move(entry);
      take_gpus(job.record());
      carry_out(job, {});  // archives it if it is over
    } catch (const Error& error) {
      log(fmt::format("job {}: left out: {}", row.id, error.what()));
    }
  }
  forget_old_jobs();
  follow_signals();
  follow_budgets();
}

void ControlPlane::take_gpus(const JobRecord& job) {
  for (int rank = 0; !job.is_over() && rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered != nullptr && !registered->finished) gpus_.add(registered->spec, job.id);
  }
}

void ControlPlane::restore_finished(StoreContents& contents) {
  for (StoredFinishedJob& row : contents.finished) {
    const std::string id = row.id;
    try {
      FinishedJob job = lowgear::server::finished_job(std::move(row));
      note_run(job.run, id, job.created_s);
      finished_.add(std::move(job));
    } catch (const Error& error) {
      log(fmt::format("job {}: left out: {}", id, error.what()));
    }
  }
}

/// The newest job of a run is the one that its name stands for.
void ControlPlane::note_run(const std::string& run, const std::string& id, double created_s) {
  const auto [known, is_new] = job_of_run_.try_emplace(run, id);
  if (!is_new && this->created_s(known->second) < created_s) known->second = id;
}

double ControlPlane::created_s(const std::string& id) const {
  const FinishedJob* over = finished_job(id);
  return over != nullptr ? over->created_s : entries_.at(id)->job->record().status.created_s;
}

const JobRecord& ControlPlane::job(std::string_view id) const {
  if (finished_job(id) != nullptr) throw job_is_over();
  return entries_.find(id)->second->job->record();
}

const FinishedJob* ControlPlane::finished_job(std::string_view id) const {
  if (const FinishedJob* found = finished_.find(id)) return found;
  if (entries_.contains(id)) return nullptr;
  throw Refused(Refusal::no_such_job, fmt::format("there is no job {}; GET /v1/jobs lists them", quote(id)));
}

bool ControlPlane::has_another_job(const FinishedJob& over) const {
  const auto newest = job_of_run_.find(over.run);
  return newest != job_of_run_.end() && newest->second != over.id;
}

std::vector<Json> ControlPlane::summaries() const {
  std::vector<std::pair<double, Json>> all;
  for (const auto& [id, entry] : entries_) {
    const JobRecord& job = entry->job->record();
    all.emplace_back(job.status.created_s, summary_json(job));
  }
  for (const auto& [id, job] : finished_.all()) all.emplace_back(job.created_s, Json::parse(job.summary));
  std::ranges::stable_sort(all, std::ranges::greater(), &std::pair<double, Json>::first);
  std::vector<Json> summaries;
  for (auto& [created_s, summary] : all) summaries.push_back(std::move(summary));
  return summaries;
}

ControlPlane::Registered ControlPlane::register_job(const protocol::JobSpec& spec,
                                                    const std::function<OnCommitted(const Registered&)>& reply,
                                                    std::string_view instance) {
  const Registered registered = find_or_create(spec, instance);
  if (registered.job == nullptr) return registered;
  change(*registered.job, [&](Job& /*job*/) { return reply ? reply(registered) : OnCommitted{}; });
  return registered;
}

/// Whether another start of the run has a job of its own: no process of this one is left to report for it.
bool ControlPlane::is_left(const std::string& id, std::string_view instance) const {
  if (const FinishedJob* over = finished_.find(id)) return !over->keeps_run;
  const JobRecord& job = entries_.at(id)->job->record();
  if (job.is_over()) return !keeps_run(job);
  return now_s() - job.status.heard_s >= kLeftS && !job.ranks.has_process(instance);
}

/// The job of the run, as it is known by now; null in both where there is none, or its ranks have left it.
ControlPlane::Registered ControlPlane::find_job(const protocol::JobSpec& spec, std::string_view instance) {
  const auto known = job_of_run_.find(spec.run);
  if (known == job_of_run_.end()) return {};
  if (is_left(known->second, instance)) {
    if (const auto left = entries_.find(known->second); left != entries_.end()) {
      change(left->second->job->record(), [&](Job& job) { job.lose(kStartedAgain, now_s()); });
    }
    return {};
  }
  if (const FinishedJob* over = finished_job(known->second)) return {nullptr, over, false};
  const JobRecord& job = entries_.at(known->second)->job->record();
  const std::string difference = first_difference(job.spec, spec);
  if (!difference.empty()) {
    throw Refused(Refusal::disagrees,
                  fmt::format("run {} is registered with another {}: all its ranks have to send the same",
                              quote(spec.run), difference));
  }
  return {&job, nullptr, false};
}

ControlPlane::Registered ControlPlane::find_or_create(const protocol::JobSpec& spec, std::string_view instance) {
  const Registered known = find_job(spec, instance);
  if (known.job != nullptr || known.finished != nullptr) return known;
  require_room(spec);
  auto entry = std::make_unique<Entry>();
  entry->job = std::make_unique<Job>("j-" + environment_.new_key().substr(0, 12), spec, now_s(), environment_.policy);
  const JobRecord& job = entry->job->record();
  job_of_run_[spec.run] = job.id;
  entries_[job.id] = std::move(entry);
  send_event(job, {ServerEvent::job_registered, fmt::format("{} ranks are expected", job.spec.parallel.world_size()),
                   now_s()});
  return {&job, nullptr, true};
}

void ControlPlane::require_room(const protocol::JobSpec& spec) const {
  if (store_.health() == StoreOutcome::disk_full)
    throw Refused(Refusal::disk_full, "the server's disk is full: running jobs continue, new ones wait");
  if (draining_) throw Refused(Refusal::shuts_down, "the server is shutting down");
  const std::size_t own_units = job_units(spec);
  if (own_units > limits_.job_units) {
    throw Refused(Refusal::too_large,
                  fmt::format("{} stages and {} microbatches make {} forwards and backwards per iteration, and this "
                              "server accepts {} per job: max_job_units of its configuration",
                              spec.parallel.stages(), spec.microbatches, own_units, limits_.job_units));
  }
  std::size_t jobs = 1;
  std::size_t unarchived = 0;
  int ranks = spec.parallel.world_size();
  std::size_t units = own_units;
  // Also those that are over: each keeps its memory until the store has its archive.
  for (const auto& [id, entry] : entries_) {
    const JobRecord& job = entry->job->record();
    ++jobs;
    unarchived += job.is_over() ? 1 : 0;
    ranks += job.spec.parallel.world_size();
    units += job_units(job.spec);
  }
  if (jobs <= limits_.jobs && ranks <= limits_.ranks && units <= limits_.units) return;
  std::string why = fmt::format(
      "{} jobs of {} ranks and {} forwards and backwards per iteration are the most that the server accepts at a time",
      limits_.jobs, limits_.ranks, limits_.units);
  if (unarchived > 0) {
    why += fmt::format(
        "; {} of them are finished and count until they are archived: if that takes long, the server's log says why "
        "they cannot be written",
        unarchived);
  }
  throw Refused(Refusal::full, why);
}

RankRegistration ControlPlane::register_rank(const JobRecord& job, const protocol::RankSpec& rank,
                                             const std::function<OnCommitted(const RankRegistration&)>& reply) {
  if (job.is_over() && job.ranks.find(rank.rank) == nullptr) throw job_is_over();
  RankRegistration registration;
  change(job, [&](Job& altered) {
    registration = altered.register_rank(rank, environment_.new_key(), profiles_, now_s());
    return reply ? reply(registration) : OnCommitted{};
  });
  return registration;
}

void ControlPlane::forget_old_jobs() {
  for (const FinishedJob& job : finished_.forget_old()) {
    const auto run = job_of_run_.find(job.run);
    if (run != job_of_run_.end() && run->second == job.id) job_of_run_.erase(run);
  }
}

/// Once the archive of a job that is over is on disk, and all outcomes are known, nothing else of it is kept.
void ControlPlane::retire(const std::string& id, bool is_archive, StoreOutcome outcome) {
  Entry& of_job = *entries_.at(id);
  if (is_archive) of_job.is_archived = of_job.is_archiving = outcome == StoreOutcome::committed;
  if (!of_job.is_archived || !of_job.writes.all_answered()) return;
  of_job.waits.end_all();
  const JobRecord& job = of_job.job->record();
  if (of_job.summary_due && environment_.events->has_listeners()) {
    environment_.events->send("job", id, summary_json(job));
  }
  finished_.add(lowgear::server::finished_job(job, now_s()));
  entries_.erase(id);
  forget_old_jobs();
}

void ControlPlane::carry_out(Job& job, OnCommitted on_committed) {
  const JobRecord& record = job.record();
  Entry& of_job = entry(record.id);
  const bool is_due = of_job.writes.is_due(now_s());
  const bool retries = (on_committed || is_due) && of_job.writes.has_refused();
  if (retries) job.store_again(of_job.writes.refused_ranks());
  JobChanges changes = job.take_changes();
  publish(of_job, changes);
  for (const std::string& warning : changes.warnings) log(fmt::format("job {}: {}", record.id, warning));
  for (const int rank : changes.gpus_taken) gpus_.add(record.ranks.find(rank)->spec, record.id);
  for (const int rank : changes.gpus_left) gpus_.remove(record.ranks.find(rank)->spec, record.id);
  if (retries) of_job.writes.take_refused(changes.store);
  of_job.writes.add_repeated(std::move(changes.repeated), changes.store);
  if (changes.planning) submit(std::move(*changes.planning));
  if (record.is_over() && std::exchange(of_job.is_planned_for, false)) environment_.planning->forget(record.id);
  // Not for each request about a job whose archive was refused: it is large.
  if (record.is_over() && is_due && !std::exchange(of_job.is_archiving, true)) {
    changes.store.archives.push_back(archive_of(record));
  }
  const bool new_profile = std::ranges::any_of(
      changes.store.documents, [](const StoredDocument& row) { return row.key.starts_with(kProfilePrefix); });
  write(record, std::move(changes.store), std::move(on_committed));
  if (new_profile) share_profile(record);
}

void ControlPlane::write(const JobRecord& job, StoreChange change, OnCommitted on_committed) {
  JobWrites& writes = entry(job.id).writes;
  if (change.empty()) {
    if (on_committed) writes.acknowledge(std::move(on_committed));
    return;
  }
  const bool archives = !change.archives.empty();
  JobWrites::Given given = writes.give(change);
  store_.write(std::move(change), [this, id = job.id, version = job.plan_version(), given = std::move(given), archives,
                                   on_committed = std::move(on_committed)](StoreOutcome outcome) {
    const auto found = entries_.find(id);
    if (found != entries_.end()) {
      found->second->writes.answer(given, outcome, now_s());
      hand_out(*found->second, version);
    }
    if (on_committed) on_committed(outcome);
    if (found != entries_.end()) retire(id, archives, outcome);
  });
}

/// Issues a plan whose outcome is known. A plan that could not be stored is followed nevertheless: training matters
/// more than its record. Ranks wait only for a newer plan, so thousands of commits of reports need not visit all
/// waiting ranks.
void ControlPlane::hand_out(Entry& entry, int version) {
  if (version <= entry.committed_version) return;
  entry.committed_version = version;
  entry.waits.answer([&](const PlanWait& wait) { return answer(entry, wait); });
}

void ControlPlane::share_profile(const JobRecord& job) {
  const std::string key = profile_key(job);
  const std::shared_ptr<const MeasuredProfile>& measured = job.profiling.own();
  profiles_[key] = measured;
  for (const auto& [id, entry] : entries_) {
    const JobRecord& other = entry->job->record();
    if (&other == &job || profile_key(other) != key) continue;
    change(other, [&](Job& altered) { altered.profile_found(measured, now_s()); });
  }
}

void ControlPlane::submit(PlanningTask task) {
  const std::string id = task.job;
  environment_.planning->submit(std::move(task), [this, id](PlanningAnswer answer) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    environment_.activity->plan(answer.verdict ? "profile" : answer.preliminary ? "quick" : "plan", answer.seconds);
    try {
      change(found->second->job->record(), [&](Job& job) { job.planned(answer, now_s()); });
    } catch (const Error& error) {
      log(fmt::format("job {}: {}", id, error.what()));
    }
  });
}

void ControlPlane::publish(Entry& entry, const JobChanges& changes) {
  const JobRecord& job = entry.job->record();
  entry.summary_due = entry.summary_due || changes.summary_changed;
  for (const int rank : changes.gpus_heard) {
    if (entry.gpu_changes.size() < kGpuChanges) entry.gpu_changes.insert(rank);
  }
  for (const Json& decision : changes.decisions) {
    if (logs_debug()) log_debug(fmt::format("job {}: decision {}", job.id, decision.dump()));
    const auto text = [&](const char* member) { return decision[member].get_ref<const std::string&>(); };
    if (decision.contains("technique")) {
      environment_.activity->reported_decision(text("technique"), text("change"));
    } else {
      environment_.activity->decision(text("kind"), text("kind") == "failed" ? "failed" : "applied");
    }
  }
  EventSink& events = *environment_.events;
  if (!events.has_listeners()) return;
  for (const JobIteration& iteration : changes.iterations) {
    Json data = iteration_json(job, iteration);
    data["job"] = job.id;
    events.send("iteration", job.id, data);
  }
  for (Json decision : changes.decisions) {
    decision["job"] = job.id;
    events.send(name(ServerEvent::decision), job.id, decision);
  }
  for (const JobEvent& event : changes.events) send_event(job, event);
}

void ControlPlane::send_event(const JobRecord& job, const JobEvent& event) {
  const Json data = {{"event", name(event.event)}, {"time_s", event.time_s}, {"job", job.id},
                     {"run", job.spec.run},        {"name", job.spec.name},  {"user", or_null(job.spec.user)},
                     {"reason", event.reason}};
  environment_.events->send(name(event.event), job.id, data);
}

bool ControlPlane::answer(Entry& entry, const PlanWait& wait) const {
  if (wait.pending.is_gone()) return true;
  if (entry.committed_version < entry.job->record().plan_version()) return false;
  const PlanText plan = entry.job->plan_after(wait.rank, wait.after, now_s());
  if (!plan) return false;
  wait.pending.give(plan);
  return true;
}

void ControlPlane::wait_for_plan(const JobRecord& job, int rank, int after, double wait_s, Pending<PlanText> pending) {
  PlanWait wait{.rank = rank, .after = after, .until_s = now_s() + wait_s, .pending = std::move(pending)};
  Entry& of_job = entry(job.id);
  if (answer(of_job, wait)) return;
  if (wait_s <= 0 || draining_) return wait.pending.give(nullptr);
  if (job.is_over()) return let_wait(wait_s, std::move(wait.pending));
  of_job.waits.add(std::move(wait));
}

void ControlPlane::let_wait(double wait_s, Pending<PlanText> pending) {
  if (draining_) return pending.give(nullptr);
  late_.add({.until_s = now_s() + std::min(wait_s, kLongestLateWaitS), .pending = std::move(pending)});
}

void ControlPlane::follow_signals() {
  const Signals::Allowance allowance = signals_.follow(calendar_s());
  for (const auto& [id, entry] : entries_) {
    change(entry->job->record(), [&](Job& job) { job.set_signal(allowance.slowdown_pct, allowance.why, now_s()); });
  }
}

void ControlPlane::follow_budgets() {
  std::vector<const JobRecord*> jobs;
  for (const auto& [id, entry] : entries_) {
    if (!entry->job->record().is_over()) jobs.push_back(&entry->job->record());
  }
  for (const PowerBudgets::Order& order : budgets_.follow(jobs, now_s(), calendar_s())) {
    change(*order.job, [&](Job& job) { job.set_budget(order.slowdown_pct, order.why, now_s()); });
  }
  for (const PowerBudgets::Event& event : budgets_.take_events()) {
    const Json data = {
        {"event", name(event.event)}, {"time_s", now_s()}, {event.subject, event.name}, {"reason", event.reason}};
    environment_.events->send(name(event.event), "", data);
  }
}

/// Which jobs share GPUs: about once a second.
void ControlPlane::follow_gpus() {
  const GpuUses::FindRank find = [this](const GpuUses::User& user) -> const RegisteredRank* {
    const auto found = entries_.find(user.job);
    return found == entries_.end() ? nullptr : found->second->job->record().ranks.find(user.rank);
  };
  for (GpuUses::Change& shared : gpus_.follow(find, now_s())) {
    const auto found = entries_.find(shared.user.job);
    if (found == entries_.end()) continue;
    change(found->second->job->record(),
           [&](Job& job) { job.set_shared(shared.user.rank, std::move(shared.shared), now_s()); });
  }
}

void ControlPlane::tick() {
  const double now = now_s();
  if (now - gpus_followed_s_ >= 1) {
    gpus_followed_s_ = now;
    follow_gpus();
  }
  if (!signals_.empty()) follow_signals();
  if (budgets_.is_due(now)) follow_budgets();
  budgets_.answer_waiting(now);
  for (const auto& [id, entry] : entries_) {
    change(entry->job->record(), [&](Job& job) { finish_if_silent(job, now, limits_.silence_s); });
    if (entry->job->record().is_over()) {
      entry->waits.end_all();
    } else {
      entry->waits.end(now);
    }
    send_events(*entry, now);
  }
  late_.end(now);
  if (finished_.end_late_ranks(now)) forget_old_jobs();
  store_.probe();
  environment_.events->flush();
}

void ControlPlane::send_events(Entry& entry, double now_s) {
  EventSink& events = *environment_.events;
  if (!entry.summary_due || now_s - entry.summary_s < kSummaryPeriodS || !events.has_listeners()) return;
  entry.summary_due = false;
  entry.summary_s = now_s;
  const JobRecord& job = entry.job->record();
  events.send("job", job.id, summary_json(job));
  for (const int rank : std::exchange(entry.gpu_changes, {})) events.send("gpu", job.id, gpu_json(job, rank));
}

Snapshot ControlPlane::snapshot() const {
  Snapshot snapshot;
  for (const auto& [id, entry] : entries_) {
    const JobRecord& job = entry->job->record();
    ++snapshot.jobs[std::string(name(job.state()))];
    snapshot.waiting_for_plans += entry->waits.size();
    if (!job.is_over()) snapshot.running.push_back(job_snapshot(job));
  }
  for (const auto& [id, job] : finished_.all()) ++snapshot.jobs[job.state];
  snapshot.budgets = budgets_.uses();
  snapshot.heard_nodes = budgets_.nodes().heard;
  snapshot.silent_nodes = budgets_.nodes().silent;
  snapshot.draining = draining_;
  snapshot.activity = environment_.activity;
  return snapshot;
}

void ControlPlane::drain() {
  draining_ = true;
  for (const auto& [id, entry] : entries_) entry->waits.end_all();
  late_.end_all();
  budgets_.answer_all();
}

}  // namespace lowgear::server

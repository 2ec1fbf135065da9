#include "control/server/job/control_plane.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "base/http/message/error.h"
#include "control/protocol/json_members.h"

namespace lowgear {
namespace {

constexpr double kSummaryPeriodS = 0.2;
/// After which the store is given again what it has refused.
constexpr double kShortestRetryS = 1;
constexpr double kLongestRetryS = 60;
/// A row that is written, and removed in the same transaction, to learn whether the store takes something again.
constexpr std::string_view kProbeKey = "probe";
/// A rank whose job is over waits so long for its answer, which is not a plan.
constexpr double kLongestLateWaitS = 5;
constexpr std::string_view kProfilePrefix = "profile/";
constexpr std::string_view kSignalPrefix = "signal/";

SignalPolicy read_signal(const std::string& name, const JsonView& body) {
  require_members(body, {"unit", "points", "rules"});
  if (has_value(body, "unit")) (void)name_text(body.at("unit"));
  const JsonView points = body.at("points");
  if (points.size() > kMaxSignalPoints) points.fail(fmt::format("more than {} points", kMaxSignalPoints));
  std::vector<SignalPoint> values;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points.at(i).size() != 2) points.at(i).fail("expected [time_s, value]");
    values.push_back({.time_s = points.at(i).at(0).number(), .value = points.at(i).at(1).number()});
  }
  const JsonView rules = body.at("rules");
  if (rules.size() > kMaxSignalThresholds) rules.fail(fmt::format("more than {} rules", kMaxSignalThresholds));
  std::vector<SignalThreshold> thresholds;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    require_members(rules.at(i), {"above", "slowdown_pct"});
    thresholds.push_back(
        {.at_least = rules.at(i).at("above").number(), .slowdown_pct = rules.at(i).at("slowdown_pct").number()});
  }
  return {name, std::move(values), std::move(thresholds)};
}

void send_no_plan(HttpReply& reply) { reply.send({.status = 204, .content_type = {}, .body = nullptr, .headers = {}}); }

/// The rows of one job, of each kind.
std::map<std::string, StoreContents> by_job(StoreContents all) {
  std::map<std::string, StoreContents> sorted;
  for (StoredRank& row : all.ranks) sorted[row.job].ranks.push_back(std::move(row));
  for (StoredReports& row : all.reports) sorted[row.job].reports.push_back(std::move(row));
  for (StoredPlan& row : all.plans) sorted[row.job].plans.push_back(std::move(row));
  for (StoredCells& row : all.cells) sorted[row.job].cells.push_back(std::move(row));
  for (StoredDecision& row : all.decisions) sorted[row.job].decisions.push_back(std::move(row));
  return sorted;
}

/// What Job::refused looks at: the documents of reports, nearly all of what is written, are not kept a second time.
StoreChange needed_if_refused(const StoreChange& change) {
  StoreChange kept{.jobs = {},
                   .ranks = change.ranks,
                   .reports = {},
                   .plans = change.plans,
                   .cells = change.cells,
                   .decisions = change.decisions,
                   .documents = change.documents,
                   .removed_documents = {},
                   .archives = {}};
  for (const StoredReports& reports : change.reports) {
    kept.reports.push_back({.job = reports.job, .rank = reports.rank, .document = {}});
  }
  return kept;
}

}  // namespace

ControlPlane::ControlPlane(ControlPlaneEnvironment environment, ControlPlaneLimits limits)
    : environment_(std::move(environment)), limits_(limits) {}

void ControlPlane::log(std::string_view text) const {
  if (environment_.log) environment_.log(text);
}

HttpError job_is_over() { return {HttpErrorCode::job_over, "this job is over: start another run"}; }

void ControlPlane::restore(StoreContents contents) {
  for (const StoredDocument& row : contents.documents) {
    try {
      if (row.key.starts_with(kProfilePrefix)) {
        profiles_[row.key.substr(kProfilePrefix.size())] =
            std::make_shared<const MeasuredProfile>(read_measured_profile(row.document));
      } else if (row.key.starts_with(kSignalPrefix)) {
        const std::string name = row.key.substr(kSignalPrefix.size());
        const Json body = parse_json(row.document, row.key);
        signals_.insert_or_assign(name, Signal{row.document, read_signal(name, JsonView(body, row.key)), {}});
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
      entry->committed_version = entry->job->plan_version();
      Job& job = *entry->job;
      note_run(row.run, row.id, row.created_s);
      entries_[row.id] = std::move(entry);
      settle(job);  // archives it if it is over, as an older server has left it
    } catch (const Error& error) {
      log(fmt::format("job {}: left out: {}", row.id, error.what()));
    }
  }
  forget_old_jobs();
  follow_signals();
}

void ControlPlane::restore_finished(StoreContents& contents) {
  for (StoredFinishedJob& row : contents.finished) {
    const std::string id = row.id;
    try {
      FinishedJob job = lowgear::finished_job(std::move(row));
      note_run(job.run, id, job.created_s);
      finished_.emplace(id, std::move(job));
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
  return over != nullptr ? over->created_s : entries_.at(id)->job->created_s();
}

Job& ControlPlane::job(std::string_view id) {
  if (finished_job(id) != nullptr) throw job_is_over();
  return *entries_.find(id)->second->job;
}

const FinishedJob* ControlPlane::finished_job(std::string_view id) const {
  if (const auto found = finished_.find(id); found != finished_.end()) return &found->second;
  if (entries_.contains(id)) return nullptr;
  throw HttpError(HttpErrorCode::no_such_job, fmt::format("there is no job {}; GET /v1/jobs lists them", quote(id)));
}

std::vector<Json> ControlPlane::summaries() const {
  std::vector<std::pair<double, Json>> all;
  for (const auto& [id, entry] : entries_) all.emplace_back(entry->job->created_s(), entry->job->summary());
  for (const auto& [id, job] : finished_) all.emplace_back(job.created_s, Json::parse(job.summary));
  std::ranges::stable_sort(all, std::ranges::greater(), &std::pair<double, Json>::first);
  std::vector<Json> summaries;
  for (auto& [created_s, summary] : all) summaries.push_back(std::move(summary));
  return summaries;
}

ControlPlane::Registered ControlPlane::register_job(const JobSpec& spec) {
  if (const auto known = job_of_run_.find(spec.run); known != job_of_run_.end()) {
    if (const FinishedJob* over = finished_job(known->second)) return {nullptr, over, false};
    Job& job = *entries_.at(known->second)->job;
    const std::string difference = first_difference(job.spec(), spec);
    if (!difference.empty()) {
      throw HttpError(HttpErrorCode::disagrees,
                      fmt::format("run {} is registered with another {}: all its ranks have to say the same",
                                  quote(spec.run), difference));
    }
    return {&job, nullptr, false};
  }
  require_room(spec);
  auto entry = std::make_unique<Entry>();
  entry->job = std::make_unique<Job>("j-" + environment_.new_key().substr(0, 12), spec, now_s());
  Job& job = *entry->job;
  job_of_run_[spec.run] = job.id();
  entries_[job.id()] = std::move(entry);
  return {&job, nullptr, true};
}

void ControlPlane::require_room(const JobSpec& spec) const {
  if (store_health_ == StoreOutcome::disk_full)
    throw HttpError(HttpErrorCode::disk_full, "the server's disk is full: running jobs continue, new ones wait");
  if (draining_) throw HttpError(HttpErrorCode::draining, "the server is about to end");
  const std::size_t own_units = job_units(spec);
  if (own_units > limits_.job_units) {
    throw HttpError(HttpErrorCode::too_large,
                    fmt::format("{} stages and {} microbatches make {} forwards and backwards an iteration, and this "
                                "server takes {} of a job: max_job_units of its configuration",
                                spec.parallel.stages(), spec.microbatches, own_units, limits_.job_units));
  }
  std::size_t jobs = 1;
  std::size_t unarchived = 0;
  int ranks = spec.parallel.world_size();
  std::size_t units = own_units;
  // Also those that are over: each keeps its memory until the store has its archive.
  for (const auto& [id, entry] : entries_) {
    ++jobs;
    unarchived += entry->job->is_over() ? 1 : 0;
    ranks += entry->job->spec().parallel.world_size();
    units += job_units(entry->job->spec());
  }
  if (jobs <= limits_.jobs && ranks <= limits_.ranks && units <= limits_.units) return;
  std::string why = fmt::format(
      "{} jobs of {} ranks and {} forwards and backwards an iteration are as many as the server takes at a time",
      limits_.jobs, limits_.ranks, limits_.units);
  if (unarchived > 0) {
    why += fmt::format(
        "; {} of them are over and count until they are archived: if that lasts, the server's log says why its disk "
        "does not take them",
        unarchived);
  }
  throw HttpError(HttpErrorCode::full, why);
}

RankRegistration ControlPlane::register_rank(Job& job, const RankSpec& rank) {
  if (job.is_over() && !job.has_rank(rank.rank)) throw job_is_over();
  return job.register_rank(rank, environment_.new_key(), profiles_, now_s());
}

/// Those that ended first; but not while ranks may ask that do not know yet that their job is over.
void ControlPlane::forget_old_jobs() {
  if (finished_.size() <= limits_.kept_jobs) return;
  std::vector<std::pair<double, std::string>> over;
  for (const auto& [id, job] : finished_) over.emplace_back(job.finished_s, id);
  std::ranges::sort(over);
  over.resize(over.size() - limits_.kept_jobs);
  for (const auto& [finished_s, id] : over) {
    if (!finished_.at(id).late_ranks.empty()) continue;
    const auto run = job_of_run_.find(finished_.at(id).run);
    if (run != job_of_run_.end() && run->second == id) job_of_run_.erase(run);
    finished_.erase(id);
  }
}

/// Once the archive of a job that is over is on disk, and all outcomes are known, nothing else of it is kept.
void ControlPlane::retire(const std::string& id, bool is_archive, StoreOutcome outcome) {
  Entry& of_job = *entries_.at(id);
  if (is_archive) of_job.is_archived = of_job.is_archiving = outcome == StoreOutcome::committed;
  if (!of_job.is_archived || of_job.answers != of_job.writes) return;
  for (const Waiter& waiter : of_job.waiters) send_no_plan(*waiter.reply);
  if (of_job.summary_due && events_.has_listeners()) events_.send("job", id, of_job.job->summary());
  finished_.insert_or_assign(id, lowgear::finished_job(*of_job.job, now_s()));
  entries_.erase(id);
  forget_old_jobs();
}

void ControlPlane::settle(Job& job, Settled settled) {
  const bool is_due = now_s() >= entry(job).retry_s;
  if (settled || is_due) job.retry_refused();
  JobChanges changes = job.take_changes();
  publish(job, changes);
  if (changes.planning) submit(std::move(*changes.planning));
  if (job.is_over() && std::exchange(entry(job).is_planned_for, false)) environment_.planning->forget(job.id());
  // Not for each request about a job whose archive was refused: it is large.
  if (job.is_over() && is_due && !std::exchange(entry(job).is_archiving, true)) {
    changes.store.archives.push_back(archive_of(job));
  }
  const bool new_profile = std::ranges::any_of(
      changes.store.documents, [](const StoredDocument& row) { return row.key.starts_with(kProfilePrefix); });
  write(job, std::move(changes.store), std::move(settled));
  if (new_profile) share_profile(job);
}

void ControlPlane::write(Job& job, StoreChange change, Settled settled) {
  Entry& of_job = entry(job);
  if (change.empty()) {
    if (!settled) return;
    if (of_job.answers == of_job.writes) return settled(StoreOutcome::committed);
    of_job.repeated.push_back({of_job.writes, of_job.refusals, std::move(settled)});
    return;
  }
  ++of_job.writes;
  StoreChange kept = needed_if_refused(change);
  const bool archives = !change.archives.empty();
  give_store(std::move(change), [this, id = job.id(), version = job.plan_version(), kept = std::move(kept), archives,
                                 settled = std::move(settled)](StoreOutcome outcome) {
    const auto found = entries_.find(id);
    if (found != entries_.end()) written(*found->second, version, kept, outcome);
    if (settled) settled(outcome);
    if (found != entries_.end()) retire(id, archives, outcome);
  });
}

void ControlPlane::give_store(StoreChange change, Settled done) {
  ++writes_under_way_;
  environment_.store->write(std::move(change), [this, done = std::move(done)](StoreOutcome outcome) {
    --writes_under_way_;
    note_store(outcome);
    if (done) done(outcome);
  });
}

void ControlPlane::written(Entry& entry, int version, const StoreChange& change, StoreOutcome outcome) {
  ++entry.answers;
  if (outcome == StoreOutcome::committed) {
    entry.retry_period_s = 0;
  } else {
    ++entry.refusals;
    entry.retry_period_s = std::clamp(2 * entry.retry_period_s, kShortestRetryS, kLongestRetryS);
    entry.retry_s = now_s() + entry.retry_period_s;
    entry.job->refused(change);
  }
  for (; !entry.repeated.empty() && entry.repeated.front().writes <= entry.answers; entry.repeated.pop_front()) {
    const Repeated& waits = entry.repeated.front();
    waits.settled(waits.refusals == entry.refusals     ? StoreOutcome::committed
                  : outcome == StoreOutcome::committed ? StoreOutcome::busy
                                                       : outcome);
  }
  // A plan that could not be stored is followed all the same: training goes before the record of it. Ranks wait for
  // nothing but a newer plan: thousands of commits of reports need not look at all who wait.
  if (version <= entry.committed_version) return;
  entry.committed_version = version;
  answer_waiters(entry);
}

void ControlPlane::note_store(StoreOutcome outcome) {
  const StoreOutcome before = std::exchange(store_health_, outcome);
  probe_period_s_ =
      outcome == StoreOutcome::committed ? 0 : std::clamp(2 * probe_period_s_, kShortestRetryS, kLongestRetryS);
  probe_s_ = now_s() + probe_period_s_;
  if (before == outcome) return;
  if (outcome == StoreOutcome::disk_full) log("the disk is full: running jobs continue, new ones are refused");
  if (before == StoreOutcome::disk_full) log("the disk has room again");
  if (outcome == StoreOutcome::busy) log("the disk is too slow, or another program holds the database");
}

/// What was refused may be written by no job again: a signal is refused to whoever has put it, and then forgotten.
void ControlPlane::probe_store() {
  if (store_health_ == StoreOutcome::committed || writes_under_way_ > 0 || now_s() < probe_s_) return;
  StoreChange change;
  change.documents.push_back({std::string(kProbeKey), {}});
  change.removed_documents.emplace_back(kProbeKey);
  give_store(std::move(change), {});
}

void ControlPlane::share_profile(const Job& job) {
  profiles_[job.profile_key()] = job.measured();
  for (const auto& [id, entry] : entries_) {
    if (entry->job.get() == &job || entry->job->profile_key() != job.profile_key()) continue;
    entry->job->profile_found(job.measured(), now_s());
    settle(*entry->job);
  }
}

void ControlPlane::submit(PlanningTask task) {
  const std::string id = task.job;
  environment_.planning->submit(std::move(task), [this, id](PlanningAnswer answer) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    activity_.plan(answer.verdict ? "profile" : answer.preliminary ? "quick" : "plan", answer.seconds);
    try {
      found->second->job->planned(std::move(answer), now_s());
      settle(*found->second->job);
    } catch (const Error& error) {
      log(fmt::format("job {}: {}", id, error.what()));
    }
  });
}

void ControlPlane::publish(Job& job, const JobChanges& changes) {
  Entry& of_job = entry(job);
  of_job.summary_due = of_job.summary_due || changes.summary_changed;
  for (const Json& decision : changes.decisions) {
    const auto& kind = decision["kind"].get_ref<const std::string&>();
    activity_.decision(kind, kind == "failed" ? "failed" : "applied");
  }
  if (!events_.has_listeners()) return;
  for (const JobIteration& iteration : changes.iterations) {
    Json data = job.iteration_json(iteration);
    data["job"] = job.id();
    events_.send("iteration", job.id(), data);
  }
  for (Json decision : changes.decisions) {
    decision["job"] = job.id();
    events_.send("decision", job.id(), decision);
  }
}

bool ControlPlane::answer(Entry& entry, const Waiter& waiter) const {
  if (waiter.reply->closed()) return true;
  if (entry.committed_version < entry.job->plan_version()) return false;
  const auto text = entry.job->plan_after(waiter.rank, waiter.after, now_s());
  if (!text) return false;
  HttpResponse response;
  response.body = text;
  waiter.reply->send(std::move(response));
  return true;
}

void ControlPlane::answer_waiters(Entry& entry) {
  std::erase_if(entry.waiters, [&](const Waiter& waiter) { return answer(entry, waiter); });
}

void ControlPlane::wait_for_plan(Job& job, int rank, int after, double wait_s, std::shared_ptr<HttpReply> reply) {
  Waiter waiter{.rank = rank, .after = after, .until_s = now_s() + wait_s, .reply = std::move(reply)};
  Entry& of_job = entry(job);
  if (answer(of_job, waiter)) return;
  if (wait_s <= 0 || draining_) return send_no_plan(*waiter.reply);
  if (job.is_over()) return let_wait(wait_s, std::move(waiter.reply));
  of_job.waiters.push_back(std::move(waiter));
}

void ControlPlane::let_wait(double wait_s, std::shared_ptr<HttpReply> reply) {
  if (draining_) return send_no_plan(*reply);
  late_.push_back({.until_s = now_s() + std::min(wait_s, kLongestLateWaitS), .reply = std::move(reply)});
}

void ControlPlane::read_decisions(const std::string& job, std::int64_t after, int limit,
                                  std::function<void(std::vector<StoredDecision>)> done) const {
  environment_.store->read_decisions(job, after, limit, std::move(done));
}

void ControlPlane::read_archive(const FinishedJob& job, std::function<void(std::optional<StoredArchive>)> done) const {
  environment_.store->read_archive(job.id, std::move(done));
}

void ControlPlane::put_signal(const std::string& name, const JsonView& body, Settled settled) {
  auto signal = std::make_shared<Signal>(Signal{body.json().dump(), read_signal(name, body), {}});
  StoreChange change;
  change.documents.push_back({std::string(kSignalPrefix) + name, signal->document});
  write_signals(
      std::move(change), [this, name, signal] { signals_.insert_or_assign(name, std::move(*signal)); },
      std::move(settled));
}

void ControlPlane::remove_signal(const std::string& name, Settled settled) {
  if (!signals_.contains(name)) {
    throw HttpError(HttpErrorCode::no_such_signal,
                    fmt::format("there is no signal {}; GET /v1/signals lists them", quote(name)));
  }
  StoreChange change;
  change.removed_documents.push_back(std::string(kSignalPrefix) + name);
  write_signals(
      std::move(change), [this, name] { signals_.erase(name); }, std::move(settled));
}

void ControlPlane::write_signals(StoreChange change, std::function<void()> committed, Settled settled) {
  give_store(std::move(change),
             [this, committed = std::move(committed), settled = std::move(settled)](StoreOutcome outcome) {
               if (outcome == StoreOutcome::committed) {
                 committed();
                 follow_signals();
               }
               if (settled) settled(outcome);
             });
}

Json ControlPlane::signals_json() const {
  Json list = Json::array();
  for (const auto& [name, signal] : signals_) {
    Json entry = Json::parse(signal.document);
    entry["name"] = name;
    entry["value"] = signal.state.value ? Json(*signal.state.value) : Json(nullptr);
    entry["slowdown_pct"] = signal.state.slowdown_pct;
    list.push_back(std::move(entry));
  }
  return {{"signals", std::move(list)}};
}

void ControlPlane::follow_signals() {
  double slowdown_pct = 0;
  std::string why = "no signal allows jobs to be slower any more";
  for (auto& [name, signal] : signals_) {
    signal.state = signal.policy.at(now_s());
    if (signal.state.slowdown_pct <= slowdown_pct) continue;
    slowdown_pct = signal.state.slowdown_pct;
    why = fmt::format("signal {} is at {:.6g}: jobs may be {:.4g} % slower", name, signal.state.value.value_or(0),
                      slowdown_pct);
  }
  for (const auto& [id, entry] : entries_) {
    entry->job->set_signal(slowdown_pct, why, now_s());
    settle(*entry->job);
  }
}

void ControlPlane::tick() {
  const double now = now_s();
  if (!signals_.empty()) follow_signals();
  for (const auto& [id, entry] : entries_) {
    entry->job->end_if_silent(now, limits_.silence_s);
    settle(*entry->job);
    std::erase_if(entry->waiters, [now, over = entry->job->is_over()](const Waiter& waiter) {
      if (waiter.reply->closed()) return true;
      if (waiter.until_s > now && !over) return false;
      send_no_plan(*waiter.reply);
      return true;
    });
    if (!entry->summary_due || now - entry->summary_s < kSummaryPeriodS || !events_.has_listeners()) continue;
    entry->summary_due = false;
    entry->summary_s = now;
    events_.send("job", id, entry->job->summary());
    for (const int rank : entry->job->take_gpu_changes()) events_.send("gpu", id, entry->job->gpu_json(rank));
  }
  std::erase_if(late_, [now](const Waiter& waiter) {
    if (waiter.reply->closed()) return true;
    if (waiter.until_s > now) return false;
    send_no_plan(*waiter.reply);
    return true;
  });
  bool may_forget = false;
  for (auto& [id, job] : finished_) {
    if (job.late_ranks.empty() || job.late_until_s >= now) continue;
    job.late_ranks.clear();
    may_forget = true;
  }
  if (may_forget) forget_old_jobs();
  probe_store();
  events_.flush();
}

ServerSnapshot ControlPlane::snapshot() const {
  ServerSnapshot snapshot;
  for (const auto& [id, entry] : entries_) {
    ++snapshot.jobs[std::string(name(entry->job->state()))];
    snapshot.waiting_for_plans += entry->waiters.size();
    if (!entry->job->is_over()) snapshot.running.push_back(entry->job->snapshot());
  }
  for (const auto& [id, job] : finished_) ++snapshot.jobs[job.state];
  snapshot.draining = draining_;
  snapshot.activity = &activity_;
  return snapshot;
}

void ControlPlane::drain() {
  draining_ = true;
  for (const auto& [id, entry] : entries_) {
    for (const Waiter& waiter : entry->waiters) send_no_plan(*waiter.reply);
    entry->waiters.clear();
  }
  for (const Waiter& waiter : late_) send_no_plan(*waiter.reply);
  late_.clear();
}

}  // namespace lowgear

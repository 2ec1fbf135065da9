#include "control/server/job/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

namespace lowgear {
namespace {

constexpr auto kStates = std::to_array<std::string_view>(
    {"registering", "baseline", "profiling", "planning", "running", "observing", "finished", "failed"});

/// Iterations of the baseline that are waited for until all ranks follow it.
constexpr int kBaselinePatience = 25;

double variance_of_mean(int count, double sum, double sum_of_squares) {
  if (count < 2) return 0;
  const double mean = sum / count;
  return std::max(0.0, (sum_of_squares - count * mean * mean) / (count - 1) / count);
}

}  // namespace

std::string_view name(JobState state) { return kStates[static_cast<std::size_t>(state)]; }

void Job::Sums::add(const JobIteration& iteration) {
  ++count;
  time_s += iteration.time_s;
  time_s2 += iteration.time_s * iteration.time_s;
  if (!iteration.energy_j) return;
  ++with_energy;
  energy_j += *iteration.energy_j;
  energy_j2 += *iteration.energy_j * *iteration.energy_j;
}

Baseline Job::Sums::baseline() const {
  Baseline baseline;
  baseline.iterations = count;
  baseline.time_s = time_s / count;
  baseline.time_error_s = std::sqrt(variance_of_mean(count, time_s, time_s2));
  baseline.time_spread_s = baseline.time_error_s * std::sqrt(count);
  if (with_energy == count) {
    baseline.energy_j = energy_j / count;
    baseline.energy_error_j = std::sqrt(variance_of_mean(count, energy_j, energy_j2));
  }
  return baseline;
}

Job::Job(std::string id, JobSpec spec, double created_s)
    : id_(std::move(id)),
      spec_(std::move(spec)),
      schedule_(make_schedule(spec_)),
      rank_of_stage_(rank_of_stage(schedule_)),
      created_s_(created_s),
      ranks_(spec_.parallel),
      heard_s_(created_s),
      log_(spec_.parallel.world_size()),
      slowdown_pct_(spec_.slowdown_pct),
      guard_pct_(spec_.guard_pct) {
  changes_.summary_changed = true;
}

RankRegistration Job::register_rank(const RankSpec& rank, std::string rank_key, const Profiles& profiles,
                                    double now_s) {
  heard_s_ = now_s;
  RankRegistration registration = ranks_.add(rank, std::move(rank_key), now_s);
  if (registration.outcome != RankRegistration::Outcome::created) return registration;
  store_rank(*ranks_.find(rank.rank));
  changes_.summary_changed = true;
  if (ranks_.complete()) begin(profiles, now_s);
  return registration;
}

void Job::begin(const Profiles& profiles, double now_s) {
  if (ranks_.common_clocks().empty()) {
    return observe("no clock that every stage's ranks can be set to: no agent, or different GPUs", now_s);
  }
  const auto known = profiles.find(profile_key());
  if (known != profiles.end()) return profile_found(known->second, now_s);
  if (!spec_.profiling) return observe("there is no profile of this model yet", now_s);
  begin_profile(now_s);
}

void Job::observe(std::string reason, double now_s, std::optional<double> retry_after_s) {
  decide("observe", reason, now_s);
  plan_failed_ = false;
  judging_ = false;
  retry_s_ = retry_after_s ? std::optional(now_s + *retry_after_s) : std::nullopt;
  change_state(JobState::observing, std::move(reason));
  // From now on nothing watches what a plan costs.
  if (versions_.empty() || versions_.back()->purpose == PlanPurpose::baseline) return;
  issue_uniform(PlanPurpose::train, ranks_.common_clocks().front(), "full clocks: " + reason_, now_s);
}

void Job::try_again(double now_s) {
  if (state_ != JobState::observing || !retry_s_ || now_s < *retry_s_) return;
  retry_s_.reset();
  if (plan_failed_) return replan("what could not be planned is tried again");
  if (model_ || !spec_.profiling) return begin_baseline(now_s);
  decide("profile", "clocks are tried out again, as the last time led to no profile", now_s);
  begin_profile(now_s);
}

void Job::report(const RankReports& reports, double now_s) {
  RegisteredRank& rank = *ranks_.find(reports.rank);
  rank.heard_s = heard_s_ = now_s;
  rank.gpu = reports.gpu;
  if (gpu_changes_.size() < kGpuChanges) gpu_changes_.insert(reports.rank);
  if (is_over() || reports.reports.empty()) return;
  const std::int64_t latest = log_.latest();
  const bool is_new = log_.add(reports, now_s) > 0;
  if (!is_new && !unstored_.contains(reports.rank)) return;
  unstored_.erase(reports.rank);
  changes_.store.reports.push_back({.job = id_,
                                    .rank = reports.rank,
                                    .first_iteration = reports.reports.front().iteration,
                                    .last_iteration = reports.reports.back().iteration,
                                    .document = to_json(reports).dump(),
                                    .reached = std::max<std::int64_t>(log_.latest(), 0)});
  if (!is_new) return;
  rank.last = reports.reports.back();
  if (log_.latest() > latest) latest_s_ = now_s;
  while (const auto iteration = log_.next(now_s)) {
    collect(*iteration);
    react(*iteration, now_s);
    const PlanVersion* plan = version(iteration->plan_version);
    activity_.iteration(plan == nullptr ? "none" : name(plan->purpose), iteration->time_s, iteration->energy_j);
    changes_.iterations.push_back(history_.back());
    changes_.summary_changed = true;
  }
  watch_baseline(now_s);
  watch_profile(now_s);
  try_again(now_s);
}

/// What an iteration adds to what is known, with no decision about it.
void Job::collect(const JobIteration& iteration) {
  if (counts_for_baseline(iteration)) {
    baseline_sums_.add(iteration);
    if (baseline_sums_.count >= std::max(2, version(baseline_version_)->iterations)) {
      baseline_ = baseline_sums_.baseline();
    }
  }
  note_followers(iteration);
  JobIteration kept = iteration;
  kept.reports.clear();
  history_.push_back(std::move(kept));
  if (history_.size() > kKeptIterations) history_.pop_front();
}

/// A rank that never takes the plan does not hold the job up for good.
bool Job::counts_for_baseline(const JobIteration& iteration) const {
  if (baseline_ || baseline_version_ == 0 || iteration.newest_version != baseline_version_) return false;
  const PlanVersion* plan = version(baseline_version_);
  if (plan == nullptr) return false;
  const std::int64_t follows_since = iteration.iteration - plan->from_iteration;
  const bool all_follow = iteration.plan_version == baseline_version_;
  return follows_since >= (all_follow ? plan->settle_iterations : kBaselinePatience);
}

void Job::note_followers(const JobIteration& iteration) {
  not_following_ = {};
  const auto due = std::ranges::find_if(versions_.rbegin(), versions_.rend(), [&](const auto& version) {
    return version->from_iteration <= iteration.iteration;
  });
  if (due == versions_.rend()) return;
  for (std::size_t rank = 0; rank < iteration.reports.size(); ++rank) {
    const auto& report = iteration.reports[rank];
    if (!report || report->plan_version >= (*due)->version) continue;
    if (not_following_.ranks++ == 0) not_following_.first_rank = static_cast<int>(rank);
  }
}

void Job::react(const JobIteration& iteration, double now_s) {
  if (state_ == JobState::baseline && baseline_) {
    decide("baseline", fmt::format("full clocks take {:.4g} s an iteration", baseline_->time_s), now_s);
    if (guard_) guard_->set_baseline({baseline_->time_s, baseline_->time_error_s, baseline_->time_spread_s});
    if (sweep_.is_new()) return begin_trials(now_s);
    change_state(JobState::planning, "plans");
    ask(PlanningTask::Kind::plan, "planned from a profile that was known", false);
  }
  if (state_ == JobState::profiling) watch_trials(iteration, now_s);
  if (state_ == JobState::running) watch_ranks(iteration, now_s);
  if (state_ == JobState::running) watch_drift(iteration, now_s);
  // Not once the ranks have begun to be profiled anew: they would leave those clocks for the guard's.
  if (state_ == JobState::running) watch_slowdown(iteration, now_s);
}

void Job::finish_rank(int rank, double now_s) {
  if (!ranks_.finish(rank)) return;
  store_rank(*ranks_.find(rank));
  log_.finish(rank);
  if (ranks_.all_finished()) return finish("all ranks have ended", now_s);
  end_trials(now_s);
}

void Job::finish(std::string_view why, double now_s) {
  if (is_over()) return;
  finished_s_ = now_s;
  decide("finish", std::string(why), now_s);
  change_state(JobState::finished, std::string(why));
}

void Job::end_if_silent(double now_s, double silence_s) {
  if (is_over() || now_s - heard_s_ < silence_s) return;
  finish(fmt::format("no rank has been heard of for {:.0f} s", silence_s), now_s);
}

std::int64_t Job::decide(std::string_view kind, const std::string& reason, double now_s) {
  Json decision = {{"id", ++decisions_},
                   {"time_s", now_s},
                   {"kind", kind},
                   {"plan_version", plan_version() == 0 ? Json(nullptr) : Json(plan_version())},
                   {"reason", reason}};
  store_state_ = true;
  changes_.store.decisions.push_back({id_, decisions_, now_s, decision.dump()});
  changes_.decisions.push_back(std::move(decision));
  return decisions_;
}

void Job::change_state(JobState state, std::string reason) {
  state_ = state;
  reason_ = std::move(reason);
  store_state_ = true;
  changes_.summary_changed = true;
}

const PlanVersion* Job::version(int number) const {
  for (const auto& version : versions_) {
    if (version->version == number) return version.get();
  }
  return nullptr;
}

Job::Recent Job::recent() const {
  Recent recent;
  double energy_j = 0;
  int with_energy = 0;
  for (auto it = history_.rbegin(); it != history_.rend(); ++it) {
    if (recent.iterations == static_cast<int>(kRecentIterations) || it->plan_version != plan_version()) break;
    ++recent.iterations;
    recent.time_s += it->time_s;
    if (!it->energy_j) continue;
    ++with_energy;
    energy_j += *it->energy_j;
    recent.energy_error_j += it->energy_error_j * it->energy_error_j;
  }
  if (recent.iterations == 0) return recent;
  recent.time_s /= recent.iterations;
  recent.energy_error_j = std::sqrt(recent.energy_error_j) / recent.iterations;
  if (with_energy == recent.iterations) recent.energy_j = energy_j / with_energy;
  return recent;
}

std::vector<int> Job::take_gpu_changes() {
  const std::set<int> ranks = std::exchange(gpu_changes_, {});
  return {ranks.begin(), ranks.end()};
}

void Job::refused(StoreChange change) {
  state_refused_ = true;  // written in any case, to find out whether the store takes something again
  const auto keep = [](auto& kept, auto& rows) { std::ranges::move(rows, std::back_inserter(kept)); };
  keep(refused_.ranks, change.ranks);
  keep(refused_.plans, change.plans);
  keep(refused_.cells, change.cells);
  keep(refused_.decisions, change.decisions);
  keep(refused_.documents, change.documents);
  for (const StoredReports& reports : change.reports) unstored_.insert(reports.rank);
}

void Job::retry_refused() {
  if (std::exchange(state_refused_, false)) store_state_ = true;
  StoreChange& next = changes_.store;
  const StoreChange again = std::exchange(refused_, {});
  for (const StoredRank& rank : again.ranks) store_rank(*ranks_.find(rank.rank));
  // In front: a newer row of the same key is written after the older one.
  next.plans.insert(next.plans.begin(), again.plans.begin(), again.plans.end());
  next.cells.insert(next.cells.begin(), again.cells.begin(), again.cells.end());
  next.decisions.insert(next.decisions.begin(), again.decisions.begin(), again.decisions.end());
  next.documents.insert(next.documents.begin(), again.documents.begin(), again.documents.end());
}

JobChanges Job::take_changes() {
  JobChanges changes = std::exchange(changes_, {});
  if (std::exchange(store_state_, false)) changes.store.jobs.push_back(stored());
  return changes;
}

}  // namespace lowgear

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "planning/plan/plan.h"
#include "server/job/job.h"

/// A job's clocks being tried out, and the baseline measured.
namespace lowgear::server {
namespace {

/// After which a plan is made with what is known: where training itself is uneven, no measurement makes it certain.
constexpr int kMaxProfileRounds = 6;
/// After the end of the first round no further one begins once as many iterations have run, unless all of it took less
/// time than this: what a better profile would save, the job loses by waiting for its plan.
constexpr int kMoreRoundsIterations = 15;
constexpr double kMoreRoundsS = 30;
/// Iterations after the last trial in which ranks should have posted, and the time that they have in any case.
constexpr int kPostingIterations = 5;
constexpr double kPostingS = 10;
/// Plans that a round is tried by, before the job continues without what has not been measured.
constexpr int kMaxAttempts = 2;
constexpr int kBaselineIterations = 5;
constexpr int kBaselineSettle = 1;
/// Iterations after which no rank is expected to take the baseline's plan any more.
constexpr int kNoFollowerIterations = 50;

std::string text_of(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("rank {} and {} {}", ranks.front(), ranks.size() - 1, ranks.size() == 2 ? "other" : "others");
}

}  // namespace

void Job::profile_found(const std::shared_ptr<const MeasuredProfile>& profile, double now_s) {
  if (planning_.model || record_.is_over() || !record_.ranks.complete() || record_.ranks.common_clocks().empty())
    return;
  const bool measures_its_own =
      record_.status.state == JobState::profiling || (record_.status.state == JobState::baseline && sweep().is_new());
  if (measures_its_own) return;
  sweep() = {};
  use_profile(profile);
  decide("profile", "there is a profile of the same model, partition and GPU: profiling is skipped", now_s);
  begin_baseline(now_s);
}

void Job::use_profile(const std::shared_ptr<const MeasuredProfile>& profile) {
  planning_.order_is_due = true;
  planning_.model =
      std::make_shared<const PipelineModel>(PipelineModel{.schedule = layout_.schedule,
                                                          .parallel = record_.spec.parallel,
                                                          .gpu = record_.spec.gpu,
                                                          .measured = *profile,
                                                          .clocks_mhz = record_.ranks.common_clocks(),
                                                          .switch_latency_s = record_.spec.switch_latency_ms / 1e3,
                                                          .simulated = record_.ranks.simulated()});
}

void Job::begin_baseline(double now_s) {
  change_state(JobState::baseline, "measures iterations at full clocks, for comparison");
  issue_uniform(protocol::PlanPurpose::baseline, full_clock_mhz(), "full clocks, for comparison", now_s);
  record_.baseline.begin(record_.plan_version(), now_s);  // a profile that failed may have left one of another time
}

/// Full clocks come first: what trials cost is counted against them.
void Job::begin_profile(double now_s) {
  record_.watch.begin_profile(now_s);
  ++planning_.serial;  // what is being planned is by the profile that is replaced
  record_.profiling.begin(record_.plan_version() + 1);
  begin_baseline(now_s);
}

void Job::begin_trials(double now_s) {
  record_.profiling.allow(record_.spec, *record_.baseline.result());
  std::vector<int> first;
  try {
    first =
        record_.profiling.first_clocks(record_.spec, record_.ranks.common_clocks(), record_.baseline.result()->time_s);
  } catch (const InputError& error) {
    return observe(error.what(), now_s, kProfileRetryS);
  }
  sweep().want(std::move(first));
  change_state(JobState::profiling, "tries clocks out");
  (void)issue_trials(sweep().round().wanted_mhz, "", now_s);
}

/// Returns whether the allowance covers a trial of any of these clocks.
bool Job::issue_trials(const std::vector<int>& clocks_mhz, const std::string& why, double now_s) {
  const FullClock full{.mhz = full_clock_mhz(), .time_s = record_.baseline.result()->time_s};
  PlanVersion version = uniform_version(protocol::PlanPurpose::profile, full.mhz);
  if (!record_.profiling.add_trials(version, record_.spec, clocks_mhz, full, why)) return false;
  issue(std::move(version), now_s);
  sweep().begin(record_.plan_version(), record_.plans.newest()->trials.back().end_iteration(), now_s);
  outbox_.state_has_changed = true;
  return true;
}

PlanVersion Job::uniform_version(protocol::PlanPurpose purpose, int clock_mhz) const {
  PlanVersion version;
  version.purpose = purpose;
  plan::Plan plan = plan::uniform_plan(layout_.schedule, clock_mhz, std::string(name(purpose)));
  plan.gpu_name = record_.spec.gpu;
  version.plans.push_back(std::move(plan));
  version.plan_of_replica.assign(static_cast<std::size_t>(record_.spec.parallel.dp), 0);
  return version;
}

void Job::issue_uniform(protocol::PlanPurpose purpose, int clock_mhz, std::string reason, double now_s) {
  PlanVersion version = uniform_version(purpose, clock_mhz);
  version.reason = std::move(reason);
  if (purpose == protocol::PlanPurpose::baseline) {
    version.iterations = kBaselineIterations;
    version.settle_iterations = kBaselineSettle;
  } else {
    version.expected_compute_s = expected_compute_s(clock_mhz);  // ranks are watched at full clocks, too
  }
  issue(std::move(version), now_s);
}

/// By plan (there is one) and pp rank; empty when the clock was not measured in all of its units.
std::vector<std::vector<double>> Job::expected_compute_s(int clock_mhz) const {
  if (!planning_.model) return {};
  std::map<std::pair<int, OpKind>, double> time_of;
  for (const protocol::ProfileCell& cell : planning_.model->measured.cells) {
    if (cell.clock_mhz == clock_mhz) time_of[{cell.stage, cell.kind}] = cell.time_s;
  }
  std::vector<double> by_rank;
  for (const std::vector<schedule::Action>& actions : layout_.schedule.ranks) {
    double& time_s = by_rank.emplace_back(0);
    for (const schedule::Action& action : actions) {
      if (action.kind != schedule::ActionKind::compute) continue;
      const auto known = time_of.find({action.stage, action.op});
      if (known == time_of.end()) return {};
      time_s += known->second;
    }
  }
  return {by_rank};
}

void Job::add_cells(const protocol::RankCells& posted, double now_s) {
  const PlanVersion* plan = record_.plans.find(posted.plan_version);
  if (plan == nullptr || plan->purpose != protocol::PlanPurpose::profile) {
    throw InputError(
        fmt::format("$.plan_version: {} is not a version that was issued to profile", posted.plan_version));
  }
  require_own_stages(posted);
  const protocol::RankCells cells = judged(posted, now_s);
  record_.ranks.find(cells.rank)->heard_s = record_.status.heard_s = now_s;
  if (!sweep().add(cells)) return;
  outbox_.changes.store.cells.push_back(
      {record_.id, cells.rank, cells.plan_version, to_json(cells).dump(), sweep().first_version()});
  if (cells.plan_version == sweep().round().plan_version) end_trials(now_s);
}

/// Judges what was measured once no rank is waited for.
void Job::end_trials(double now_s) {
  if (record_.status.state != JobState::profiling || record_.profiling.is_judging()) return;
  // The first spares a look at all ranks for each of them.
  if (sweep().waited() < record_.ranks.followers() || !unmeasured_ranks().empty()) return;
  const std::vector<int> unmeasured = sweep().measured().missing(sweep().round().wanted_mhz);
  if (!unmeasured.empty()) {
    if (sweep().round().attempts < kMaxAttempts &&
        issue_trials(unmeasured, " once more: too little was measured", now_s)) {
      return;
    }
    decide("profile", fmt::format("left out, as not all stages were measured: {}", text_of_clocks(unmeasured)), now_s);
  }
  try {
    record_.profiling.merge(layout_.schedule.stages, record_.ranks.simulated());
  } catch (const InputError& error) {
    const std::string why = fmt::format(" once more: {}", error.what());
    if (sweep().round().attempts < kMaxAttempts && issue_trials(sweep().round().wanted_mhz, why, now_s)) return;
    return observe(error.what(), now_s, kProfileRetryS);
  }
  use_profile(record_.profiling.own());
  record_.profiling.set_judging(true);
  ask(PlanningTask::Kind::judge_profile, "all requested clocks have been measured", false);
}

/// Ranks that are waited for.
std::vector<int> Job::unmeasured_ranks() const {
  std::vector<int> unmeasured;
  for (int number = 0; number < record_.ranks.size(); ++number) {
    const RegisteredRank* rank = record_.ranks.find(number);
    if (rank == nullptr || !rank->follows_plans() || !sweep().waits_for(number)) continue;
    unmeasured.push_back(number);
  }
  return unmeasured;
}

/// An iteration of a job that is being profiled. Trials stop when those that follow would cost more than they may.
void Job::watch_trials(const JobIteration& iteration, double now_s) {
  const PlanVersion* plan = record_.plans.find(iteration.newest_version);
  if (plan == nullptr || !record_.baseline.result() || !plan->trial_mhz(iteration.iteration)) return;
  const bool affords_the_rest =
      record_.profiling.spend(*plan, {.number = iteration.iteration, .time_s = iteration.time_s},
                              {.mhz = full_clock_mhz(), .time_s = record_.baseline.result()->time_s});
  outbox_.state_has_changed = true;
  const bool more_follow = iteration.iteration + 1 < plan->trials.back().end_iteration();
  if (affords_the_rest || !more_follow || record_.plans.newest() != plan) return;
  // Without what ranks are expected to take: the profile that says it is being replaced.
  PlanVersion stop = uniform_version(protocol::PlanPurpose::train, full_clock_mhz());
  stop.reason = fmt::format(
      "full clocks: trials have cost {:.3g} s, and those that follow would cost more than {:.3g} s, which are left of "
      "the limit for profiling",
      record_.profiling.budget().spent_s(), record_.profiling.budget().left_s());
  issue(std::move(stop), now_s);
}

/// No rank may follow the plan of the baseline: all agents refuse it, or none can set its clock.
void Job::watch_baseline(double now_s) {
  if (record_.status.state != JobState::baseline || record_.baseline.result() ||
      now_s - record_.baseline.begun_s() < kPostingS)
    return;
  const PlanVersion* plan = record_.plans.find(record_.baseline.plan_version());
  if (plan == nullptr) return begin_baseline(now_s);  // its row in the store was damaged
  const std::int64_t last = record_.baseline.first_iteration(*plan) + kNoFollowerIterations;
  if (record_.history.latest() < last || record_.baseline.counted() > 0) return;
  observe("no rank follows the plan for the baseline: see the logs of the agents", now_s, kProfileRetryS);
}

/// A rank may never post: its agent has gone, or something of it fails.
void Job::watch_profile(double now_s) {
  if (record_.status.state != JobState::profiling || record_.profiling.is_judging() ||
      now_s - sweep().round().begun_s < kPostingS)
    return;
  const bool is_stopped = record_.plans.newest()->version != sweep().round().plan_version;
  const std::int64_t end = is_stopped ? record_.plans.newest()->from_iteration : sweep().round().end_iteration;
  if (record_.history.latest() < end + kPostingIterations) return;
  const std::vector<int> missing = unmeasured_ranks();
  if (missing.empty()) return end_trials(now_s);
  if (sweep().round().attempts < kMaxAttempts &&
      issue_trials(sweep().round().wanted_mhz, fmt::format(" once more: there are no reports of {}", text_of(missing)),
                   now_s)) {
    return;
  }
  drop_unmeasured_ranks(missing, now_s);
}

bool Job::stage_is_measured(int pp_rank) const {
  return std::ranges::any_of(sweep().measured().all(), [&](const protocol::RankCells& posted) {
    return !posted.cells.empty() && record_.ranks.find(posted.rank)->spec.pp_rank == pp_rank;
  });
}

void Job::drop_unmeasured_ranks(const std::vector<int>& missing, double now_s) {
  for (const int rank : missing) {
    if (stage_is_measured(record_.ranks.find(rank)->spec.pp_rank)) continue;
    return observe(
        fmt::format("neither rank {} nor another rank of its stages reports measurements: see the log of its agent",
                    rank),
        now_s, kProfileRetryS);
  }
  for (const int rank : missing) sweep().do_without(rank);
  decide("profile",
         fmt::format("there are no reports of {}: the profile is made from other ranks of the same stages",
                     text_of(missing)),
         now_s);
  end_trials(now_s);
}

void Job::require_own_stages(const protocol::RankCells& cells) const {
  const int own = record_.ranks.find(cells.rank)->spec.pp_rank;
  const auto require = [&](std::string_view list, std::size_t index, int stage) {
    if (layout_.rank_of_stage.at(static_cast<std::size_t>(stage)) == own) return;
    throw InputError(fmt::format("$.{}[{}].stage: stage {} is not on pp_rank {}", list, index, stage, own));
  };
  for (std::size_t i = 0; i < cells.cells.size(); ++i) require("cells", i, cells.cells[i].stage);
  for (std::size_t i = 0; i < cells.blocking.size(); ++i) require("blocking", i, cells.blocking[i].stage);
}

/// Whether the profile may be improved by another round of trials.
bool Job::may_try_more(double now_s) const {
  if (sweep().rounds() >= kMaxProfileRounds || record_.profiling.budget().is_spent()) return false;
  const std::optional<TrialRound>& first = sweep().first_round();
  return !first || record_.history.latest() - first->end_iteration < kMoreRoundsIterations ||
         now_s - first->begun_s < kMoreRoundsS;
}

void Job::take_verdict(const ProfileVerdict& verdict, double now_s) {
  record_.profiling.set_judging(false);
  decide("profile", verdict.reason, now_s);
  if (!verdict.more_clocks_mhz.empty() && may_try_more(now_s)) {
    sweep().want(verdict.more_clocks_mhz);
    if (issue_trials(sweep().round().wanted_mhz, "", now_s)) return;
    decide("profile",
           fmt::format("no more clocks are tried: {:.3g} s are left of the time for profiling",
                       record_.profiling.budget().left_s()),
           now_s);
  }
  outbox_.changes.store.documents.push_back(
      {"profile/" + profile_key(record_), write_measured_profile(*record_.profiling.own())});
  change_state(JobState::planning, "plans");
  ask(PlanningTask::Kind::plan, fmt::format("planned from a profile of {} clocks", sweep().measured().clocks()), false);
}

}  // namespace lowgear::server

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/core/error.h"
#include "control/server/job/job.h"
#include "planning/plan/uniform_plan.h"
#include "planning/profile/few_clock_fit.h"

/// A job's clocks being tried out, and the baseline measured.
namespace lowgear {
namespace {

/// After which a plan is made with what is known: where training itself is uneven, no measurement makes it certain.
constexpr int kMaxProfileRounds = 6;
/// Iterations after the last trial in which ranks should have posted, and the time that they have in any case.
constexpr int kPostingIterations = 5;
constexpr double kPostingS = 10;
/// Plans that a round is tried by, before the job continues without what has not been measured.
constexpr int kMaxAttempts = 2;
constexpr int kBaselineIterations = 5;
constexpr int kBaselineSettle = 1;
/// Iterations after which no rank is expected to take the baseline's plan any more.
constexpr int kNoFollowerIterations = 50;
/// A driver takes some 25 ms to change a clock; where a job says more, that counts.
constexpr double kSettleS = 0.1;
constexpr double kSettleLatencies = 2;
/// Lowest clock that is tried out, as a share of the highest: below, units take long and save nothing.
constexpr double kLowestClockShare = 0.6;
/// From the end of a sweep that led to no profile to the next.
constexpr double kProfileRetryS = 3'600;

std::string text_of(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("rank {} and {} {}", ranks.front(), ranks.size() - 1, ranks.size() == 2 ? "other" : "others");
}

std::string text_of_clocks(const std::vector<int>& clocks_mhz) {
  return fmt::format("{} MHz", fmt::join(clocks_mhz, ", "));
}

TrialOptions trial_options(const JobSpec& spec) {
  TrialOptions options;
  options.iterations = spec.profiling->iterations;
  options.settle_iterations = spec.profiling->settle_iterations;
  options.settle_s = std::max(kSettleS, kSettleLatencies * spec.switch_latency_ms / 1e3);
  return options;
}

}  // namespace

void Job::profile_found(const std::shared_ptr<const MeasuredProfile>& profile, double now_s) {
  if (model_ || is_over() || !ranks_.complete() || ranks_.common_clocks().empty()) return;
  const bool measures_its_own = state_ == JobState::profiling || (state_ == JobState::baseline && sweep_.is_new());
  if (measures_its_own) return;
  sweep_ = {};
  use_profile(profile);
  decide("profile", "a profile of the same model, partition and GPU is known: nothing is profiled", now_s);
  begin_baseline(now_s);
}

void Job::use_profile(const std::shared_ptr<const MeasuredProfile>& profile) {
  model_ = std::make_shared<const PipelineModel>(PipelineModel{.schedule = schedule_,
                                                               .parallel = spec_.parallel,
                                                               .gpu = spec_.gpu,
                                                               .measured = *profile,
                                                               .clocks_mhz = ranks_.common_clocks(),
                                                               .switch_latency_s = spec_.switch_latency_ms / 1e3,
                                                               .simulated = ranks_.simulated()});
}

void Job::begin_baseline(double now_s) {
  change_state(JobState::baseline, "measures iterations at full clocks, to compare with");
  issue_uniform(PlanPurpose::baseline, ranks_.common_clocks().front(), "full clocks, to compare with", now_s);
  baseline_version_ = plan_version();
  baseline_begun_s_ = now_s;
  baseline_.reset();  // a profile that failed may have left one of another time
  baseline_sums_ = {};
}

/// Full clocks come first: what trials cost is counted against them.
void Job::begin_profile(double now_s) {
  detector_.reset();  // what it has found is by the profile that is being replaced
  detected_slow_.clear();
  drift_.reset();
  judging_ = false;
  ++planning_serial_;  // and so is what is being planned
  profiled_s_ = now_s;
  sweep_ = TrialSweep(plan_version() + 1);
  begin_baseline(now_s);
}

/// What profiling may cost by its specification.
TrialBudget Job::full_budget() const {
  const JobProfiling& wanted = *spec_.profiling;
  return TrialBudget(wanted.allowance_pct / 100 * wanted.allowance_iterations * baseline_->time_s);
}

void Job::begin_trials(double now_s) {
  const JobProfiling& wanted = *spec_.profiling;
  const std::vector<int> clocks = ranks_.common_clocks();
  budget_ = full_budget();
  std::vector<int> first;
  try {
    const int lowest_mhz = wanted.min_mhz.value_or(static_cast<int>(std::floor(kLowestClockShare * clocks.front())));
    first = affordable_clocks(clocks, lowest_mhz, wanted.max_mhz.value_or(clocks.front()),
                              std::min(wanted.clocks, static_cast<int>(clocks.size())), baseline_->time_s,
                              budget_.left_s(), trial_options(spec_));
  } catch (const InputError& error) {
    return observe(error.what(), now_s, kProfileRetryS);
  }
  if (first.empty()) {
    return observe(fmt::format("trying {} clocks out takes more than the {:.3g} s that profiling may cost: raise "
                               "allowance_pct of the job's profile",
                               kMinMeasuredClocks, budget_.left_s()),
                   now_s, kProfileRetryS);
  }
  // The plan's own clock is measured between the trials.
  if (first.front() != clocks.front()) first.insert(first.begin(), clocks.front());
  sweep_.want(std::move(first));
  change_state(JobState::profiling, "tries clocks out");
  (void)issue_trials(sweep_.wanted_mhz(), "", now_s);
}

/// Returns whether the allowance covers a trial of each of these clocks.
bool Job::issue_trials(const std::vector<int>& clocks_mhz, const std::string& why, double now_s) {
  const int full_mhz = ranks_.common_clocks().front();
  const TrialOptions options = trial_options(spec_);
  std::vector<ClockTrial> trials = plan_trials(clocks_mhz, full_mhz, baseline_->time_s, budget_.left_s(), options);
  if (trials.empty()) return false;
  std::vector<int> tried_mhz;
  for (const ClockTrial& trial : trials) tried_mhz.push_back(trial.clock_mhz);
  PlanVersion version = uniform_version(PlanPurpose::profile, full_mhz);
  version.reason = fmt::format("tries {} out in single iterations{}", text_of_clocks(tried_mhz), why);
  version.settle_iterations = options.settle_iterations;
  version.settle_s = options.settle_s;
  version.trials = std::move(trials);
  version.sweep = sweep_.first_version();
  issue(std::move(version), now_s);
  sweep_.begin(plan_version(), versions_.back()->trials.back().end_iteration(), now_s);
  store_state_ = true;
  return true;
}

/// Throws InputError when what the ranks have measured is no profile.
std::shared_ptr<const MeasuredProfile> Job::merged_profile() const {
  MeasuredProfile profile = merge_cells(sweep_.cells(), schedule_.stages);
  profile.simulated = ranks_.simulated();
  return std::make_shared<const MeasuredProfile>(std::move(profile));
}

PlanVersion Job::uniform_version(PlanPurpose purpose, int clock_mhz) const {
  PlanVersion version;
  version.purpose = purpose;
  Plan plan = uniform_plan(schedule_, clock_mhz, std::string(name(purpose)));
  plan.gpu_name = spec_.gpu;
  version.plans.push_back(std::move(plan));
  version.plan_of_replica.assign(static_cast<std::size_t>(spec_.parallel.dp), 0);
  return version;
}

void Job::issue_uniform(PlanPurpose purpose, int clock_mhz, std::string reason, double now_s) {
  PlanVersion version = uniform_version(purpose, clock_mhz);
  version.reason = std::move(reason);
  if (purpose == PlanPurpose::baseline) {
    version.iterations = kBaselineIterations;
    version.settle_iterations = kBaselineSettle;
  } else {
    version.expected_compute_s = expected_compute_s(clock_mhz);  // ranks are watched at full clocks, too
  }
  issue(std::move(version), now_s);
}

/// By plan (there is one) and pp rank; empty when the clock was not measured in all of its units.
std::vector<std::vector<double>> Job::expected_compute_s(int clock_mhz) const {
  if (!model_) return {};
  std::map<std::pair<int, OpKind>, double> time_of;
  for (const ProfileCell& cell : model_->measured.cells) {
    if (cell.clock_mhz == clock_mhz) time_of[{cell.stage, cell.kind}] = cell.time_s;
  }
  std::vector<double> by_rank;
  for (const std::vector<Action>& actions : schedule_.ranks) {
    double& time_s = by_rank.emplace_back(0);
    for (const Action& action : actions) {
      if (action.kind != ActionKind::compute) continue;
      const auto known = time_of.find({action.stage, action.op});
      if (known == time_of.end()) return {};
      time_s += known->second;
    }
  }
  return {by_rank};
}

void Job::add_cells(RankCells cells, double now_s) {
  const PlanVersion* plan = version(cells.plan_version);
  if (plan == nullptr || plan->purpose != PlanPurpose::profile) {
    throw InputError(fmt::format("$.plan_version: {} is not a version that was issued to profile", cells.plan_version));
  }
  require_own_stages(cells);
  ranks_.find(cells.rank)->heard_s = heard_s_ = now_s;
  const Json document = to_json(cells);
  const int rank = cells.rank;
  const int number = cells.plan_version;
  if (!sweep_.add(std::move(cells))) return;
  changes_.store.cells.push_back({id_, rank, number, document.dump(), sweep_.first_version()});
  if (number == sweep_.plan_version()) end_trials(now_s);
}

/// Judges what was measured once no rank is waited for.
void Job::end_trials(double now_s) {
  if (state_ != JobState::profiling || judging_) return;
  // The first spares a look at all ranks for each of them.
  if (sweep_.waited() < ranks_.followers() || !unmeasured_ranks().empty()) return;
  const std::vector<int> unmeasured = sweep_.unmeasured_mhz();
  if (!unmeasured.empty()) {
    if (sweep_.attempts() < kMaxAttempts && issue_trials(unmeasured, " once more: too little was measured", now_s)) {
      return;
    }
    decide("profile", fmt::format("left out, as not all stages were measured: {}", text_of_clocks(unmeasured)), now_s);
  }
  try {
    own_profile_ = merged_profile();
  } catch (const InputError& error) {
    const std::string why = fmt::format(" once more: {}", error.what());
    if (sweep_.attempts() < kMaxAttempts && issue_trials(sweep_.wanted_mhz(), why, now_s)) return;
    return observe(error.what(), now_s, kProfileRetryS);
  }
  use_profile(own_profile_);
  judging_ = true;
  ask(PlanningTask::Kind::judge_profile, "the clocks that were wanted have been measured", false);
}

/// Ranks that are waited for.
std::vector<int> Job::unmeasured_ranks() const {
  std::vector<int> unmeasured;
  for (int number = 0; number < ranks_.size(); ++number) {
    const RegisteredRank* rank = ranks_.find(number);
    if (rank == nullptr || !rank->spec.follows_plans || rank->finished || !sweep_.waits_for(number)) continue;
    unmeasured.push_back(number);
  }
  return unmeasured;
}

/// An iteration of a job that is being profiled. Trials stop when they have cost what they may.
void Job::watch_trials(const JobIteration& iteration, double now_s) {
  const PlanVersion* plan = version(iteration.newest_version);
  if (plan == nullptr || !baseline_ || !plan->trial_mhz(iteration.iteration)) return;
  budget_.spend(iteration.time_s, baseline_->time_s);
  store_state_ = true;
  const bool more_follow = iteration.iteration + 1 < plan->trials.back().end_iteration();
  if (!budget_.is_spent() || !more_follow || versions_.back().get() != plan) return;
  // Without what ranks are expected to take: the profile that says it is being replaced.
  PlanVersion stop = uniform_version(PlanPurpose::train, ranks_.common_clocks().front());
  stop.reason =
      fmt::format("full clocks: trials have cost {:.3g} s, which is what profiling may cost", budget_.spent_s());
  issue(std::move(stop), now_s);
}

/// No rank may follow the plan of the baseline: all agents refuse it, or none can set its clock.
void Job::watch_baseline(double now_s) {
  if (state_ != JobState::baseline || baseline_ || now_s - baseline_begun_s_ < kPostingS) return;
  const PlanVersion* plan = version(baseline_version_);
  if (plan == nullptr) return begin_baseline(now_s);  // its row in the store was damaged
  if (log_.latest() < plan->from_iteration + kNoFollowerIterations || baseline_sums_.count > 0) return;
  observe("no rank follows the plan for the baseline: look at the logs of the agents", now_s, kProfileRetryS);
}

/// A rank may never post: its agent has gone, or something of it fails.
void Job::watch_profile(double now_s) {
  if (state_ != JobState::profiling || judging_ || now_s - sweep_.begun_s() < kPostingS) return;
  const bool is_stopped = versions_.back()->version != sweep_.plan_version();
  const std::int64_t end = is_stopped ? versions_.back()->from_iteration : sweep_.end_iteration();
  if (log_.latest() < end + kPostingIterations) return;
  const std::vector<int> missing = unmeasured_ranks();
  if (missing.empty()) return end_trials(now_s);
  if (sweep_.attempts() < kMaxAttempts &&
      issue_trials(sweep_.wanted_mhz(), fmt::format(" once more: nothing has come from {}", text_of(missing)), now_s)) {
    return;
  }
  go_on_without(missing, now_s);
}

bool Job::stage_is_measured(int pp_rank) const {
  return std::ranges::any_of(sweep_.cells(), [&](const RankCells& posted) {
    return !posted.cells.empty() && ranks_.find(posted.rank)->spec.pp_rank == pp_rank;
  });
}

void Job::go_on_without(const std::vector<int>& missing, double now_s) {
  for (const int rank : missing) {
    if (stage_is_measured(ranks_.find(rank)->spec.pp_rank)) continue;
    return observe(fmt::format("rank {} measures nothing, nor does another rank of its stages: look at the log of its "
                               "agent",
                               rank),
                   now_s, kProfileRetryS);
  }
  for (const int rank : missing) sweep_.do_without(rank);
  decide(
      "profile",
      fmt::format("nothing comes from {}: the profile is made from other ranks of the same stages", text_of(missing)),
      now_s);
  end_trials(now_s);
}

void Job::require_own_stages(const RankCells& cells) const {
  const int own = ranks_.find(cells.rank)->spec.pp_rank;
  const auto require = [&](std::string_view list, std::size_t index, int stage) {
    if (rank_of_stage_.at(static_cast<std::size_t>(stage)) == own) return;
    throw InputError(fmt::format("$.{}[{}].stage: stage {} is not on pp_rank {}", list, index, stage, own));
  };
  for (std::size_t i = 0; i < cells.cells.size(); ++i) require("cells", i, cells.cells[i].stage);
  for (std::size_t i = 0; i < cells.blocking.size(); ++i) require("blocking", i, cells.blocking[i].stage);
}

void Job::take_verdict(const ProfileVerdict& verdict, double now_s) {
  judging_ = false;
  decide("profile", verdict.reason, now_s);
  if (!verdict.more_clocks_mhz.empty() && sweep_.rounds() < kMaxProfileRounds && !budget_.is_spent()) {
    sweep_.want(verdict.more_clocks_mhz);
    if (issue_trials(sweep_.wanted_mhz(), "", now_s)) return;
    decide("profile",
           fmt::format("no more clocks are tried out: {:.3g} s are left of what profiling may cost", budget_.left_s()),
           now_s);
  }
  changes_.store.documents.push_back({"profile/" + profile_key(), write_measured_profile(*own_profile_)});
  change_state(JobState::planning, "plans");
  ask(PlanningTask::Kind::plan, fmt::format("planned from a profile of {} clocks", sweep_.measured_clocks()), false);
}

}  // namespace lowgear

#include "server/job/profiling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/figure_text.h"
#include "planning/profile/few_clock_fit.h"
#include "server/store/store.h"

namespace lowgear::server {

namespace {

/// A driver takes some 25 ms to change a clock; where a job says more, that counts.
constexpr double kSettleS = 0.1;
constexpr double kSettleLatencies = 2;
/// Lowest clock that is tried out, as a share of the highest: below, units take long and save nothing.
constexpr double kLowestClockShare = 0.6;

TrialOptions trial_options(const protocol::JobSpec& spec, const TrialBudget& budget) {
  TrialOptions options;
  options.steepness = budget.steepness();
  options.iterations = spec.profiling->iterations;
  options.settle_iterations = spec.profiling->settle_iterations;
  options.settle_s = std::max(kSettleS, kSettleLatencies * spec.switch_latency_ms / 1e3);
  return options;
}

/// After which a plan is made with what is known: where training itself is uneven, no measurement makes it certain.
constexpr int kMaxProfileRounds = 6;
/// After the end of the first round no further one begins once as many iterations have run, unless all of it took less
/// time than this: what a better profile would save, the job loses by waiting for its plan.
constexpr int kMoreRoundsIterations = 15;
constexpr double kMoreRoundsS = 30;
/// Standard error of a plan's energy from which on nothing is planned: ten times the wanted one. Plans save some 5 to
/// 15 %, so that the sign of a saving would not be known.
constexpr double kMostEnergyErrorPct = 5;
/// Iterations after the last trial in which ranks should have posted, and the time that they have in any case.
constexpr int kPostingIterations = 5;
constexpr double kPostingS = 10;
/// Plans that a round is tried by, before the job continues without what has not been measured.
constexpr int kMaxAttempts = 2;

/// `1410 MHz` or `1410, 1200 MHz`.
std::string text_of_clocks(const std::vector<int>& clocks_mhz) {
  return fmt::format("{} MHz", fmt::join(clocks_mhz, ", "));
}

FullClock full_clock(const ProfiledJob& job) {
  return {.mhz = job.ranks.common_clocks().front(), .time_s = job.baseline->time_s};
}

/// Ranks that are waited for.
std::vector<int> unmeasured_ranks(const TrialSweep& sweep, const RankRegistry& ranks) {
  std::vector<int> unmeasured;
  for (int number = 0; number < ranks.size(); ++number) {
    const RegisteredRank* rank = ranks.find(number);
    if (rank == nullptr || !rank->follows_plans() || !sweep.waits_for(number)) continue;
    unmeasured.push_back(number);
  }
  return unmeasured;
}

bool stage_is_measured(int pp_rank, const TrialSweep& sweep, const RankRegistry& ranks) {
  return std::ranges::any_of(sweep.measured().all(), [&](const protocol::RankCells& posted) {
    return !posted.cells.empty() && ranks.find(posted.rank)->spec.pp_rank == pp_rank;
  });
}

}  // namespace

void Profiling::begin(int first_version) {
  is_judging_ = false;
  sweep_ = TrialSweep(first_version);
}

JobStep Profiling::begin_trials(const ProfiledJob& job) {
  allow(job.spec, *job.baseline);
  try {
    sweep_.want(first_clocks(job.spec, job.ranks.common_clocks(), job.baseline->time_s));
  } catch (const InputError& error) {
    return Observe{error.what(), kProfileRetryS};
  }
  if (auto plan = trials(sweep_.round().wanted_mhz, job, "")) return IssuePlan{std::move(*plan)};
  return {};
}

/// Empty when the allowance covers a trial of none of these clocks.
std::optional<PlanVersion> Profiling::trials(const std::vector<int>& clocks_mhz, const ProfiledJob& job,
                                             std::string_view why) const {
  const FullClock full = full_clock(job);
  PlanVersion version = job.layout.uniform_plan(protocol::PlanPurpose::profile, full.mhz);
  if (!add_trials(version, job.spec, clocks_mhz, full, why)) return std::nullopt;
  return version;
}

void Profiling::begin_round(const PlanVersion& issued, double now_s) {
  sweep_.begin(issued.version, issued.trials.back().end_iteration(), now_s);
}

JobStep Profiling::count(const JobIteration& iteration, const ProfiledJob& job, JobOutbox& outbox) {
  const PlanVersion* plan = job.plans.find(iteration.newest_version);
  if (plan == nullptr || !job.baseline || !plan->trial_mhz(iteration.iteration)) return {};
  const FullClock full = full_clock(job);
  const bool affords_the_rest = spend(*plan, {.number = iteration.iteration, .time_s = iteration.time_s}, full);
  outbox.change_state();
  const bool more_follow = iteration.iteration + 1 < plan->trials.back().end_iteration();
  if (affords_the_rest || !more_follow || job.plans.newest() != plan) return {};
  // Without what ranks are expected to take: the profile that says it is being replaced.
  PlanVersion stop = job.layout.uniform_plan(protocol::PlanPurpose::full_clocks, full.mhz);
  stop.reason = fmt::format(
      "full clocks: trials have cost {}, and the next ones would cost more than the {} that are left of the limit for "
      "profiling",
      duration_text(budget_.spent_s()), duration_text(budget_.left_s()));
  return IssuePlan{std::move(stop)};
}

JobStep Profiling::end_trials(const ProfiledJob& job, JobOutbox& outbox, double now_s) {
  if (is_judging_) return {};
  // The first spares a look at all ranks for each of them.
  if (sweep_.waited() < job.ranks.followers() || !unmeasured_ranks(sweep_, job.ranks).empty()) return {};
  const std::vector<int> unmeasured = sweep_.measured().missing(sweep_.round().wanted_mhz);
  const bool may_repeat = sweep_.round().attempts < kMaxAttempts;
  if (!unmeasured.empty()) {
    if (may_repeat) {
      if (auto plan = trials(unmeasured, job, " once more: too little was measured")) {
        return IssuePlan{std::move(*plan)};
      }
    }
    outbox.decide("profile", fmt::format("left out, as not all stages were measured: {}", text_of_clocks(unmeasured)),
                  now_s);
  }
  try {
    merge(job.layout.stages(), job.ranks.simulated());
  } catch (const InputError& error) {
    if (may_repeat) {
      if (auto plan = trials(sweep_.round().wanted_mhz, job, fmt::format(" once more: {}", error.what()))) {
        return IssuePlan{std::move(*plan)};
      }
    }
    return Observe{error.what(), kProfileRetryS};
  }
  is_judging_ = true;
  return JudgeProfile{};
}

JobStep Profiling::watch(const ProfiledJob& job, JobOutbox& outbox, double now_s) {
  const TrialRound& round = sweep_.round();
  if (is_judging_ || now_s - round.begun_s < kPostingS) return {};
  const PlanVersion& newest = *job.plans.newest();
  const std::int64_t end = newest.version == round.plan_version ? round.end_iteration : newest.from_iteration;
  if (job.latest_iteration < end + kPostingIterations) return {};
  const std::vector<int> missing = unmeasured_ranks(sweep_, job.ranks);
  if (missing.empty()) return end_trials(job, outbox, now_s);
  if (round.attempts < kMaxAttempts) {
    const std::string why = fmt::format(" once more: there are no reports of {}", text_of_ranks(missing));
    if (auto plan = trials(round.wanted_mhz, job, why)) return IssuePlan{std::move(*plan)};
  }
  return drop_unmeasured_ranks(missing, job, outbox, now_s);
}

JobStep Profiling::drop_unmeasured_ranks(const std::vector<int>& missing, const ProfiledJob& job, JobOutbox& outbox,
                                         double now_s) {
  for (const int rank : missing) {
    if (stage_is_measured(job.ranks.find(rank)->spec.pp_rank, sweep_, job.ranks)) continue;
    return Observe{
        fmt::format("neither rank {} nor another rank of its stages reports measurements: see the log of its agent",
                    rank),
        kProfileRetryS};
  }
  for (const int rank : missing) sweep_.do_without(rank);
  outbox.decide("profile",
                fmt::format("there are no reports of {}: the profile is made from other ranks of the same stages",
                            text_of_ranks(missing)),
                now_s);
  return end_trials(job, outbox, now_s);
}

/// Why the profile may not be improved by another round of trials; empty: it may.
std::string Profiling::why_no_more(std::int64_t latest_iteration, double now_s) const {
  if (sweep_.rounds() >= kMaxProfileRounds) return fmt::format("{} rounds are the most", kMaxProfileRounds);
  if (budget_.is_spent()) return "the limit for profiling is spent";
  const std::optional<TrialRound>& first = sweep_.first_round();
  const std::int64_t since = first ? latest_iteration - first->end_iteration : 0;
  if (since < kMoreRoundsIterations || now_s - first->begun_s < kMoreRoundsS) return "";
  return fmt::format("{} iterations have run since the first round, and no round begins after {}", since,
                     kMoreRoundsIterations);
}

JobStep Profiling::take_verdict(const ProfileVerdict& verdict, const ProfiledJob& job, JobOutbox& outbox,
                                double now_s) {
  is_judging_ = false;
  const bool is_enough = verdict.contradiction.empty() && verdict.energy_error_pct <= kMostEnergyErrorPct;
  if (is_enough) sweep_.keep();
  std::optional<PlanVersion> plan;
  std::string next;
  if (!verdict.more_clocks_mhz.empty()) {
    std::string why_not = why_no_more(job.latest_iteration, now_s);
    if (why_not.empty()) {
      sweep_.want(verdict.more_clocks_mhz);
      plan = trials(sweep_.round().wanted_mhz, job, "");
      why_not = fmt::format("{} are left of the limit for profiling", duration_text(budget_.left_s()));
    }
    next = plan ? "; more clocks are tried next" : "; no more clocks are tried: " + why_not;
  }
  outbox.decide("profile", verdict.reason + next, now_s);
  if (plan) return IssuePlan{std::move(*plan)};
  if (is_enough) return PlanByProfile{};
  // Stalled iterations of a later round may have spoiled the means.
  if (sweep_.return_to_kept()) {
    merge(job.layout.stages(), job.ranks.simulated());
    outbox.decide("profile",
                  "later measurements have made the profile worse: plans use those before them, by which the plan's "
                  "energy was known well enough",
                  now_s);
    return PlanByProfile{};
  }
  if (!verdict.contradiction.empty()) return RefuseProfile{verdict.contradiction};
  return RefuseProfile{
      fmt::format("the trials leave the plan's energy known to {} % (one standard error), and a "
                  "plan needs {:.2g} %",
                  three_digits(verdict.energy_error_pct), kMostEnergyErrorPct)};
}

void Profiling::allow(const protocol::JobSpec& spec, const IterationMeans& baseline) {
  const protocol::JobProfiling& wanted = *spec.profiling;
  budget_ =
      TrialBudget(wanted.allowance_pct / 100 * wanted.allowance_iterations * baseline.time_s, budget_.steepness());
}

std::vector<int> Profiling::first_clocks(const protocol::JobSpec& spec, const std::vector<int>& clocks_mhz,
                                         double full_clock_time_s) const {
  const protocol::JobProfiling& wanted = *spec.profiling;
  const int full_mhz = clocks_mhz.front();
  const int lowest_mhz = wanted.min_mhz.value_or(static_cast<int>(std::floor(kLowestClockShare * full_mhz)));
  std::vector<int> first = affordable_clocks(clocks_mhz, lowest_mhz, wanted.max_mhz.value_or(full_mhz),
                                             std::min(wanted.clocks, static_cast<int>(clocks_mhz.size())),
                                             full_clock_time_s, budget_.left_s(), trial_options(spec, budget_));
  if (first.empty()) {
    throw InputError(
        fmt::format("trying {} clocks takes more than the {} that profiling may cost: raise allowance_pct of the job's "
                    "profile",
                    profile::kMinMeasuredClocks, duration_text(budget_.left_s())));
  }
  // The plan's own clock is measured between the trials.
  if (first.front() != full_mhz) first.insert(first.begin(), full_mhz);
  return first;
}

bool Profiling::add_trials(PlanVersion& version, const protocol::JobSpec& spec, const std::vector<int>& clocks_mhz,
                           const FullClock& full, std::string_view why) const {
  const TrialOptions options = trial_options(spec, budget_);
  std::vector<int> affordable_mhz = clocks_mhz;
  std::vector<plan::ClockTrial> trials;
  // The lowest ones cost most.
  for (; trials.empty() && !affordable_mhz.empty(); affordable_mhz.erase(std::ranges::min_element(affordable_mhz))) {
    trials = plan_trials(affordable_mhz, full.mhz, full.time_s, budget_.left_s(), options);
  }
  if (trials.empty()) return false;
  std::vector<int> tried_mhz;
  for (const plan::ClockTrial& trial : trials) tried_mhz.push_back(trial.clock_mhz);
  version.reason = fmt::format("tries {} in single iterations{}", text_of_clocks(tried_mhz), why);
  version.settle_iterations = options.settle_iterations;
  version.settle_s = options.settle_s;
  version.trials = std::move(trials);
  version.sweep = sweep_.first_version();
  return true;
}

bool Profiling::spend(const PlanVersion& version, const TrialIteration& iteration, const FullClock& full) {
  budget_.spend(iteration.time_s, full.time_s);
  const auto trial = std::ranges::find_if(version.trials, [&](const plan::ClockTrial& each) {
    return iteration.number >= each.first_iteration && iteration.number < each.end_iteration();
  });
  TrialOptions options;
  options.settle_iterations = version.settle_iterations;
  options.settle_s = version.settle_s;
  if (trial != version.trials.end() &&
      iteration.number >= trial->first_iteration + settling_iterations(full.time_s, options)) {
    budget_.learn(static_cast<double>(trial->clock_mhz) / full.mhz, iteration.time_s / full.time_s);
  }
  return expected_cost_s(version.trials, iteration.number + 1, full.mhz, full.time_s, budget_.steepness()) <=
         budget_.left_s();
}

void Profiling::merge(int stages, bool simulated) {
  MeasuredProfile profile = merge_cells(sweep_.measured().all(), stages);
  profile.simulated = simulated;
  own_ = std::make_shared<const MeasuredProfile>(std::move(profile));
}

void Profiling::restore(const JsonView& state, const protocol::JobSpec& spec,
                        const std::optional<IterationMeans>& baseline) {
  constexpr std::string_view kWanted = "wanted_clocks_mhz";
  const bool names_first = has_value(state, "sweep_first_version");
  const int first_version = names_first ? state.at("sweep_first_version").integer_in(0, kMaxStoredNumber) : 0;
  if (!state.has(kWanted)) {  // of a server that measured one clock after the other
    sweep_ = TrialSweep(std::max(first_version, 1));
    return;
  }
  if (first_version == 0) return;
  sweep_ = TrialSweep(first_version);
  sweep_.restore_kept(state.at("sweep_kept_version").integer_in(0, kMaxStoredNumber),
                      state.at("sweep_has_returned").boolean());
  const JsonView wanted = state.at(kWanted);
  std::vector<int> clocks_mhz;
  for (std::size_t i = 0; i < wanted.size(); ++i) clocks_mhz.push_back(wanted.at(i).integer_in(1, kMaxStoredNumber));
  if (!clocks_mhz.empty()) sweep_.want(std::move(clocks_mhz));
  if (!baseline || !spec.profiling) return;
  if (state.has("trials_steepness")) budget_ = TrialBudget(0, state.at("trials_steepness").number());
  allow(spec, *baseline);
  budget_.spend(state.at("trials_cost_s").number(), 0);
}

void Profiling::resume_version(const JsonView& state, double now_s) {
  if (sweep_.rounds() == 0) return;
  sweep_.begin(state.at("sweep_version").integer_in(0, kMaxStoredNumber), state.at("sweep_end_iteration").integer(),
               now_s);
}

void Profiling::write_state(Json& state) const {
  state["wanted_clocks_mhz"] = sweep_.round().wanted_mhz;
  state["sweep_first_version"] = sweep_.first_version();
  state["sweep_version"] = sweep_.round().plan_version;
  state["sweep_kept_version"] = sweep_.kept_version();
  state["sweep_has_returned"] = sweep_.has_returned();
  state["sweep_end_iteration"] = sweep_.round().end_iteration;
  state["trials_cost_s"] = budget_.spent_s();
  state["trials_steepness"] = budget_.steepness();
}

}  // namespace lowgear::server

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "plan/uniform_plan.h"
#include "profile/few_clock_fit.h"
#include "server/job.h"

/// A job's clocks being tried out, and the baseline measured.
namespace lowgear {
namespace {

/// After which a plan is made with what is known: where training itself is uneven, no measurement makes it certain.
constexpr int kMaxProfileRounds = 6;
/// Iterations, as a multiple of those asked for, after which a rank should have posted: a client measures up to 20
/// times as many where they are too short for its GPU's energy counter.
constexpr int kMeasuringPatience = 25;
/// And the time that it has in any case, to measure and to post.
constexpr double kMeasuringPatienceS = 10;
/// Plans that a clock is tried out by, before the job goes on without the ranks that have not measured it.
constexpr int kMaxAttempts = 2;
constexpr int kBaselineIterations = 5;
constexpr int kBaselineSettle = 1;

std::string text_of(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("rank {} and {} {}", ranks.front(), ranks.size() - 1, ranks.size() == 2 ? "other" : "others");
}

}  // namespace

void Job::profile_found(const std::shared_ptr<const MeasuredProfile>& profile, double now_s) {
  if (model_ || is_over() || !ranks_.complete() || ranks_.common_clocks().empty()) return;
  if (state_ == JobState::profiling) return;  // its own will be of this very job
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
  baseline_.reset();  // a profile that failed may have left one of another time
  baseline_sums_ = {};
}

void Job::begin_profile(double now_s) {
  const JobProfiling& wanted = *spec_.profiling;
  const std::vector<int> clocks = ranks_.common_clocks();
  detector_.reset();  // what it has found is by the profile that is being replaced
  detected_slow_.clear();
  ++planning_serial_;  // and so is what is being planned
  try {
    sweep_ = ProfileSweep(plan_version() + 1);
    sweep_.want(choose_clocks(clocks, wanted.min_mhz.value_or(clocks.back()), wanted.max_mhz.value_or(clocks.front()),
                              std::min(wanted.clocks, static_cast<int>(clocks.size()))));
  } catch (const InputError& error) {
    return observe(error.what(), now_s);
  }
  change_state(JobState::profiling, "tries clocks out");
  profile_next_clock(now_s);
}

void Job::profile_next_clock(double now_s) {
  const auto clock = sweep_.clock_mhz();
  if (!clock) {
    // All that was wanted is there: is it enough?
    try {
      own_profile_ = merged_profile();
    } catch (const InputError& error) {
      return observe(error.what(), now_s);
    }
    use_profile(own_profile_);
    return ask(PlanningTask::Kind::judge_profile, "the clocks that were wanted have been measured", false);
  }
  const std::size_t behind = sweep_.waiting_clocks_mhz().size() - 1;
  measure_clock(*clock,
                behind == 0 ? fmt::format("measures units at {} MHz", *clock)
                            : fmt::format("measures units at {} MHz, {} more behind it", *clock, behind),
                now_s);
}

/// Throws InputError when what the ranks have measured is no profile.
std::shared_ptr<const MeasuredProfile> Job::merged_profile() const {
  MeasuredProfile profile = merge_cells(sweep_.cells(), schedule_.stages);
  profile.simulated = ranks_.simulated();
  return std::make_shared<const MeasuredProfile>(std::move(profile));
}

void Job::measure_clock(int clock_mhz, std::string reason, double now_s) {
  issue_uniform(PlanPurpose::profile, clock_mhz, std::move(reason), now_s);
  sweep_.begin(plan_version(), now_s);
  if (baseline_version_ == 0 && clock_mhz == ranks_.common_clocks().front()) baseline_version_ = plan_version();
}

void Job::issue_uniform(PlanPurpose purpose, int clock_mhz, std::string reason, double now_s) {
  PlanVersion version;
  version.purpose = purpose;
  version.reason = std::move(reason);
  version.iterations = kBaselineIterations;
  version.settle_iterations = kBaselineSettle;
  if (purpose == PlanPurpose::profile && spec_.profiling) {
    version.iterations = spec_.profiling->iterations;
    version.settle_iterations = spec_.profiling->settle_iterations;
  }
  Plan plan = uniform_plan(schedule_, clock_mhz, std::string(name(purpose)));
  plan.gpu_name = spec_.gpu;
  version.plans.push_back(std::move(plan));
  version.plan_of_replica.assign(static_cast<std::size_t>(spec_.parallel.dp), 0);
  issue(std::move(version), now_s);
}

void Job::add_cells(RankCells cells, double now_s) {
  const PlanVersion* plan = version(cells.plan_version);
  if (plan == nullptr || plan->purpose != PlanPurpose::profile) {
    throw InputError(fmt::format("$.plan_version: {} is no version that was issued to profile", cells.plan_version));
  }
  require_own_stages(cells);
  ranks_.find(cells.rank)->heard_s = heard_s_ = now_s;
  const Json document = to_json(cells);
  const int rank = cells.rank;
  const int number = cells.plan_version;
  if (!sweep_.add(std::move(cells))) return;
  changes_.store.cells.push_back({id_, rank, number, document.dump()});
  if (number == sweep_.plan_version()) leave_measured_clock(now_s);
}

/// Takes the next clock up once no rank is waited for.
void Job::leave_measured_clock(double now_s) {
  if (state_ != JobState::profiling || !sweep_.clock_mhz()) return;
  // The first spares a look at all ranks for each of them.
  if (sweep_.waited() < ranks_.followers() || !unmeasured_ranks().empty()) return;
  sweep_.advance();
  store_state_ = true;  // a server that is started again has to know that nobody posts for this clock any more
  profile_next_clock(now_s);
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

bool Job::stages_are_measured(int pp_rank, int clock_mhz) const {
  return std::ranges::any_of(sweep_.cells(), [&](const RankCells& posted) {
    if (ranks_.find(posted.rank)->spec.pp_rank != pp_rank) return false;
    return std::ranges::any_of(posted.cells, [&](const ProfileCell& cell) { return cell.clock_mhz == clock_mhz; });
  });
}

/// A rank may never post: its agent has gone, or something of it fails. The job must not stay at a clock for that.
void Job::watch_profile(double now_s) {
  if (state_ != JobState::profiling || !sweep_.clock_mhz()) return;
  const PlanVersion* plan = version(sweep_.plan_version());
  if (plan == nullptr || now_s - sweep_.begun_s() < kMeasuringPatienceS) return;
  const std::int64_t iterations = log_.latest() - plan->from_iteration;
  if (iterations < plan->settle_iterations + kMeasuringPatience * plan->iterations) return;
  const int clock_mhz = *sweep_.clock_mhz();
  const std::vector<int> missing = unmeasured_ranks();
  if (!missing.empty() && sweep_.attempts() < kMaxAttempts) {
    return measure_clock(clock_mhz,
                         fmt::format("measures units at {} MHz once more: nothing has come from {} in {} iterations",
                                     clock_mhz, text_of(missing), iterations),
                         now_s);
  }
  go_on_without(missing, now_s);
}

void Job::go_on_without(const std::vector<int>& missing, double now_s) {
  const int clock_mhz = *sweep_.clock_mhz();
  for (const int rank : missing) {
    if (stages_are_measured(ranks_.find(rank)->spec.pp_rank, clock_mhz)) continue;
    return observe(
        fmt::format("rank {} measures nothing at {} MHz, nor does another rank of its stages: look at the log "
                    "of its agent, and start the job again",
                    rank, clock_mhz),
        now_s);
  }
  for (const int rank : missing) sweep_.do_without(rank);
  if (!missing.empty()) {
    decide("profile",
           fmt::format("nothing comes from {} at {} MHz: the profile is made from other ranks of the same stages",
                       text_of(missing), clock_mhz),
           now_s);
  }
  leave_measured_clock(now_s);
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
  decide("profile", verdict.reason, now_s);
  if (!verdict.more_clocks_mhz.empty() && sweep_.rounds() < kMaxProfileRounds) {
    sweep_.want(verdict.more_clocks_mhz);
    return profile_next_clock(now_s);
  }
  changes_.store.documents.push_back({"profile/" + profile_key(), write_measured_profile(*own_profile_)});
  if (!baseline_) return begin_baseline(now_s);
  change_state(JobState::planning, "plans");
  ask(PlanningTask::Kind::plan, fmt::format("planned from a profile of {} clocks", sweep_.measured_clocks()), false);
}

}  // namespace lowgear

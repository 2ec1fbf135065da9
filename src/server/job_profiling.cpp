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
constexpr int kBaselineIterations = 5;
constexpr int kBaselineSettle = 1;

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
}

void Job::begin_profile(double now_s) {
  const JobProfiling& wanted = *spec_.profiling;
  const std::vector<int> clocks = ranks_.common_clocks();
  try {
    sweep_ = {};
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
      MeasuredProfile profile = merge_cells(sweep_.cells(), schedule_.stages);
      profile.simulated = ranks_.simulated();
      own_profile_ = std::make_shared<const MeasuredProfile>(std::move(profile));
    } catch (const InputError& error) {
      return observe(error.what(), now_s);
    }
    use_profile(own_profile_);
    return ask(PlanningTask::Kind::judge_profile, "the clocks that were wanted have been measured", false);
  }
  const std::size_t behind = sweep_.waiting_clocks_mhz().size() - 1;
  issue_uniform(PlanPurpose::profile, *clock,
                behind == 0 ? fmt::format("measures units at {} MHz", *clock)
                            : fmt::format("measures units at {} MHz, {} more behind it", *clock, behind),
                now_s);
  sweep_.begin(plan_version());
  if (baseline_version_ == 0 && *clock == ranks_.common_clocks().front()) baseline_version_ = plan_version();
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
  if (state_ != JobState::profiling || !sweep_.clock_mhz() || number != sweep_.plan_version()) return;
  if (sweep_.posted() < ranks_.followers()) return;
  sweep_.advance();
  store_state_ = true;  // a server that is started again has to know that nobody posts for this clock any more
  profile_next_clock(now_s);
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
  changes_.store.documents.push_back({"profile/" + spec_.profile_key(), write_measured_profile(*own_profile_)});
  if (!baseline_) return begin_baseline(now_s);
  change_state(JobState::planning, "plans");
  ask(PlanningTask::Kind::plan, fmt::format("planned from a profile of {} clocks", sweep_.measured_clocks()), false);
}

}  // namespace lowgear

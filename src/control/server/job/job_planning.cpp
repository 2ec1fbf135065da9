#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/core/error.h"
#include "control/server/job/job.h"
#include "planning/adapt/switch_boundary.h"

/// A job's plans: under which conditions they are asked for, and how they get to the ranks.
namespace lowgear {
namespace {

/// In which all ranks get a new plan: a round trip, and a server that is busy with 10,000 of them.
constexpr double kDeliveryBudgetS = 0.1;
/// Shortest iteration that is reckoned with: reports of no time at all must not put plans off for ever.
constexpr double kShortestIterationS = 1e-3;
/// Time of an iteration as long as none has been reported.
constexpr double kUnknownIterationS = 0.05;
/// From planning that failed to the next attempt: doubled each time.
constexpr double kShortestRetryS = 60;
constexpr double kLongestRetryS = 3'600;
/// Steps by which the guard takes back what a plan may be slower than the fastest.
constexpr std::array<double, 4> kGuardShares{1.0, 2.0 / 3, 1.0 / 3, 0.0};

bool same_clocks(const Plan& a, const Plan& b) {
  return std::ranges::equal(a.ranks, b.ranks, [](const auto& left, const auto& right) {
    return std::ranges::equal(left, right, {}, &PlannedOp::clock_mhz, &PlannedOp::clock_mhz);
  });
}

bool same_clocks(const PlanVersion& version, const JobPlan& plan) {
  if (version.plan_of_replica.size() != plan.plan_of_replica.size()) return false;
  for (std::size_t replica = 0; replica < plan.plan_of_replica.size(); ++replica) {
    const Plan& now = version.plan_of(static_cast<int>(replica));
    if (!same_clocks(now, plan.plans.at(static_cast<std::size_t>(plan.plan_of_replica[replica])))) return false;
  }
  return true;
}

bool holds_clock(const PlanVersion& version, int clock_mhz) {
  return std::ranges::all_of(version.plans, [clock_mhz](const Plan& plan) {
    return std::ranges::all_of(plan.ranks, [clock_mhz](const auto& ops) {
      return std::ranges::all_of(ops, [clock_mhz](const PlannedOp& op) { return op.clock_mhz == clock_mhz; });
    });
  });
}

}  // namespace

/// Plans are followed even when the disk takes none. Numbers are reserved on it ahead, so that a server that is killed
/// then and starts anew gives none of theirs to another plan.
int Job::take_version() {
  ++last_version_;
  if (reserved_version_ - last_version_ < kReservedVersions) {
    reserved_version_ = last_version_ + 2 * kReservedVersions;
    store_state_ = true;
  }
  return last_version_;
}

void Job::issue(PlanVersion version, double now_s) {
  version.version = take_version();
  version.from_iteration = next_boundary(now_s);
  for (ClockTrial& trial : version.trials) trial.first_iteration += version.from_iteration;
  changes_.store.plans.push_back({id_, version.version, write_plan_version(version)});
  versions_.push_back(std::make_shared<const PlanVersion>(std::move(version)));
  if (versions_.size() > kKeptVersions) versions_.pop_front();
  const PlanVersion& issued = *versions_.back();
  texts_.emplace(issued);
  late_boundary_.reset();
  decide("plan", fmt::format("{}; from iteration {}", issued.reason, issued.from_iteration), now_s);
  changes_.summary_changed = true;
}

std::int64_t Job::next_boundary(double now_s) const {
  if (log_.latest() < 0) return 0;
  double shortest_s = kUnknownIterationS;
  if (!history_.empty()) {
    const std::size_t begin = history_.size() - std::min(history_.size(), kRecentIterations);
    shortest_s = history_[begin].time_s;
    for (std::size_t i = begin; i < history_.size(); ++i) shortest_s = std::min(shortest_s, history_[i].time_s);
    shortest_s = std::max(shortest_s, kShortestIterationS);
  }
  return switch_boundary({.latest_complete = log_.latest(),
                          .since_complete_s = std::clamp(now_s - latest_s_, 0.0, shortest_s),
                          .iteration_time_s = shortest_s},
                         kDeliveryBudgetS);
}

std::shared_ptr<const std::string> Job::plan_after(int rank, int after, double now_s) {
  heard_s_ = now_s;
  if (versions_.empty() || plan_version() <= after) return nullptr;
  const PlanVersion& newest = *versions_.back();
  const RegisteredRank& registered = *ranks_.find(rank);
  std::int64_t from = newest.from_iteration;
  if (log_.latest() >= 0 && from <= log_.latest() + 1) {
    // It has been missed: all ranks that still ask begin together again.
    if (!late_boundary_ || *late_boundary_ <= log_.latest() + 1) late_boundary_ = next_boundary(now_s);
    from = *late_boundary_;
  }
  return texts_->text(registered.spec.dp_rank, registered.spec.pp_rank, from);
}

void Job::ask(PlanningTask::Kind kind, std::string reason, bool quick_first) {
  changes_.planning = PlanningTask{.kind = kind,
                                   .job = id_,
                                   .serial = ++planning_serial_,
                                   .model = model_,
                                   .conditions = conditions(),
                                   .reason = std::move(reason),
                                   .quick_first = quick_first};
}

void Job::replan(const std::string& reason) {
  if (!model_) return;  // the first plan is asked for with the conditions of then
  if (state_ == JobState::observing && plan_failed_) change_state(JobState::planning, "plans");
  if (state_ == JobState::planning || state_ == JobState::running) ask(PlanningTask::Kind::plan, reason, true);
}

std::map<int, SlowRank> Job::slow_ranks() const {
  std::map<int, SlowRank> slow = detected_slow_;
  for (const auto& [rank, known] : reported_slow_) slow[rank] = known;
  return slow;
}

PlanningConditions Job::conditions() const {
  PlanningConditions conditions;
  conditions.slowdown_pct = std::max(slowdown_pct_, signal_slowdown_pct_);
  if (guard_holds() && !guard_->level().is_full_clocks) {
    const auto step =
        std::min<std::size_t>(static_cast<std::size_t>(guard_->level().steps_back), kGuardShares.size() - 1);
    conditions.slowdown_pct *= kGuardShares[step];
  }
  // Of the tp ranks that share a position the slowest counts.
  std::map<std::pair<int, int>, double> slowest;
  for (const auto& [rank, slow] : slow_ranks()) {
    const RankSpec& spec = ranks_.find(rank)->spec;
    double& factor = slowest.try_emplace({spec.dp_rank, spec.pp_rank}, slow.factor).first->second;
    factor = std::max(factor, slow.factor);
  }
  for (const auto& [place, factor] : slowest) {
    conditions.slow.push_back({.replica = place.first, .rank = place.second, .factor = factor});
  }
  conditions.power = power_limit_;
  if (power_limit_) conditions.node_of_gpu = ranks_.hosts();
  return conditions;
}

void Job::planned(PlanningAnswer answer, double now_s) {
  if (answer.serial != planning_serial_ || is_over()) return;
  if (!answer.error.empty()) return give_plan_up(answer.error, now_s);
  if (answer.verdict) take_verdict(*answer.verdict, now_s);
  if (answer.plan) issue_plan(answer, now_s);
}

/// A job that follows a plan keeps it, guarded by what is wanted now.
void Job::give_plan_up(const std::string& error, double now_s) {
  decide("failed", error, now_s);
  if (state_ == JobState::profiling) {
    own_profile_.reset();  // another job's may be better
    model_.reset();
    return observe(error, now_s, kLongestRetryS);  // by a verdict: there is no profile to plan from
  }
  const std::string reason =
      power_limit_ ? fmt::format("the power cap ({}) is not kept: {}", describe(power_limit_), error) : error;
  if (state_ == JobState::running) {
    // The server was started again, or other settings hold.
    if (training_version_ && (!guard_ || guard_->limit_pct() != guard_limit_pct())) {
      guard_plans({training_version_->time_s});
      if (guard_ && guard_->level().is_full_clocks) hold_full_clocks(reason, now_s);
    }
    return change_state(JobState::running, reason);
  }
  retry_after_s_ = std::clamp(2 * retry_after_s_, kShortestRetryS, kLongestRetryS);
  observe(reason, now_s, retry_after_s_);
  plan_failed_ = true;
}

/// The account is kept as long as the limit is: plans come and go.
void Job::guard_plans(std::vector<double> planned_times_s) {
  if (is_capped_ || !baseline_) return guard_.reset();  // a cap may cost time, and full clocks would break it
  if (!guard_ || guard_->limit_pct() != guard_limit_pct()) {
    guard_.emplace(IterationBaseline{baseline_->time_s, baseline_->time_error_s, baseline_->time_spread_s},
                   GuardOptions{.limit_pct = guard_limit_pct()});
  }
  guard_->set_plans(std::move(planned_times_s), full_clock_scale_);
}

void Job::issue_plan(const PlanningAnswer& answer, double now_s) {
  const JobPlan& plan = *answer.plan;
  frontier_ = plan.frontier;
  full_clock_scale_ = plan.full_clock_scale;
  is_capped_ = power_limit_.has_value();
  guard_plans(guard_times(plan));
  retry_after_s_ = 0;
  change_state(JobState::running, "follows a plan");
  if (guard_ && guard_->level().is_full_clocks) return hold_full_clocks(answer.reason, now_s);
  const bool same = training_version_ && training_version_ == versions_.back() && same_clocks(*training_version_, plan);
  if (same) {
    decide("plan", answer.reason + "; the plan in force is the best for it", now_s);
    return;
  }
  PlanVersion version;
  version.purpose = PlanPurpose::train;
  version.reason = plan.note.empty() ? answer.reason : answer.reason + "; " + plan.note;
  if (answer.preliminary) version.reason += "; a better one follows";
  version.time_s = plan.time_s;
  version.energy_j = plan.energy_j;
  version.plans = plan.plans;
  version.plan_of_replica = plan.plan_of_replica;
  version.expected_compute_s = plan.expected_compute_s;
  issue(std::move(version), now_s);
  training_version_ = versions_.back();
  if (first_training_version_ == 0) first_training_version_ = training_version_->version;
}

/// What the ranks follow need not be full clocks: the guard may just have taken them for what a plan would cost, and
/// after a profile its last clock is in force.
void Job::hold_full_clocks(const std::string& reason, double now_s) {
  const int clock_mhz = ranks_.common_clocks().front();
  const PlanVersion& in_force = *versions_.back();
  const bool watches_ranks = in_force.purpose != PlanPurpose::train || !in_force.expected_compute_s.empty() || !model_;
  if (in_force.purpose != PlanPurpose::profile && watches_ranks && holds_clock(in_force, clock_mhz)) {
    decide("guard", reason + "; full clocks are held all the same", now_s);
    return;
  }
  decide("guard", reason + "; what the job may still lose is too little for a plan: full clocks", now_s);
  issue_uniform(PlanPurpose::train, clock_mhz, "full clocks: " + reason, now_s);
}

/// Planned times of the plan in force and of those that the guard would go back to.
std::vector<double> Job::guard_times(const JobPlan& plan) {
  std::vector<double> times{plan.time_s};
  const double fastest_s = plan.fastest_time_s;
  for (const double share : kGuardShares) {
    const double time_s = fastest_s + (plan.time_s - fastest_s) * share;
    if (time_s < times.back() * (1 - 1e-9) && time_s > 0) times.push_back(time_s);
  }
  return times;
}

bool Job::is_known(int rank, double factor) const {
  const auto reported = reported_slow_.find(rank);
  if (factor == 1) return reported == reported_slow_.end() && !detected_slow_.contains(rank);
  return reported != reported_slow_.end() && reported->second.factor == factor;
}

std::int64_t Job::set_straggler(int rank, double factor, double now_s) {
  std::int64_t& set_by = set_by_.stragglers[rank];
  if (set_by != 0 && is_known(rank, factor)) return set_by;
  if (factor == 1) {
    reported_slow_.erase(rank);
    detected_slow_.erase(rank);
    if (detector_) detector_->forget(rank);
  } else {
    reported_slow_[rank] = {factor, "reported"};
  }
  const std::string reason = factor == 1 ? fmt::format("rank {} was reported to be no straggler any more", rank)
                                         : fmt::format("rank {} was reported to be {:.3g} times slower", rank, factor);
  set_by = decide("straggler", reason, now_s);
  changes_.summary_changed = true;
  replan(reason);
  return set_by;
}

std::int64_t Job::set_power_limit(const std::optional<PowerLimit>& limit, double now_s) {
  if (set_by_.power_limit != 0 && limit == power_limit_) return set_by_.power_limit;
  power_limit_ = limit;
  const std::string reason = describe(limit);
  set_by_.power_limit = decide("power_cap", reason, now_s);
  changes_.summary_changed = true;
  replan(reason);
  return set_by_.power_limit;
}

std::int64_t Job::set_settings(std::optional<double> slowdown_pct, std::optional<double> guard_pct, double now_s) {
  const double wanted_slowdown_pct = slowdown_pct.value_or(slowdown_pct_);
  const double wanted_guard_pct = guard_pct.value_or(guard_pct_);
  const bool is_same = wanted_slowdown_pct == slowdown_pct_ && wanted_guard_pct == guard_pct_;
  if (set_by_.settings != 0 && is_same) return set_by_.settings;
  slowdown_pct_ = wanted_slowdown_pct;
  guard_pct_ = wanted_guard_pct;
  const std::string reason = fmt::format("plans may be {:.4g} % slower than the fastest, the guard allows {:.4g} %",
                                         slowdown_pct_, guard_pct_);
  set_by_.settings = decide("settings", reason, now_s);
  changes_.summary_changed = true;
  replan(reason);
  return set_by_.settings;
}

void Job::set_signal(double slowdown_pct, std::string_view why, double now_s) {
  if (is_over() || slowdown_pct == signal_slowdown_pct_) return;
  signal_slowdown_pct_ = slowdown_pct;
  decide("signal", std::string(why), now_s);
  replan(std::string(why));
}

}  // namespace lowgear

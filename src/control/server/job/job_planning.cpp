#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "control/server/job/job.h"

/// A job's plans: the conditions of requests, and the delivery to the ranks.
namespace lowgear::server {
namespace {

/// From planning that failed to the next attempt: doubled each time.
constexpr double kShortestRetryS = 60;
constexpr double kLongestRetryS = 3'600;
bool same_clocks(const plan::Plan& a, const plan::Plan& b) {
  return std::ranges::equal(a.ranks, b.ranks, [](const auto& left, const auto& right) {
    return std::ranges::equal(left, right, {}, &plan::PlannedOp::clock_mhz, &plan::PlannedOp::clock_mhz);
  });
}

bool same_clocks(const PlanVersion& version, const JobPlan& plan) {
  if (version.plan_of_replica.size() != plan.plan_of_replica.size()) return false;
  for (std::size_t replica = 0; replica < plan.plan_of_replica.size(); ++replica) {
    const plan::Plan& now = version.plan_of(static_cast<int>(replica));
    if (!same_clocks(now, plan.plans.at(static_cast<std::size_t>(plan.plan_of_replica[replica])))) return false;
  }
  return true;
}

bool holds_clock(const PlanVersion& version, int clock_mhz) {
  return std::ranges::all_of(version.plans, [clock_mhz](const plan::Plan& plan) {
    return std::ranges::all_of(plan.ranks, [clock_mhz](const auto& ops) {
      return std::ranges::all_of(ops, [clock_mhz](const plan::PlannedOp& op) { return op.clock_mhz == clock_mhz; });
    });
  });
}

}  // namespace

void Job::issue(PlanVersion version, double now_s) {
  const PlanVersion& issued = plans_.issue(std::move(version), history_, now_s);
  outbox_.changes.store.plans.push_back({id(), issued.version, write_plan_version(issued)});
  decide("plan", fmt::format("{}; from iteration {}", issued.reason, issued.from_iteration), now_s);
  outbox_.changes.summary_changed = true;
}

std::shared_ptr<const std::string> Job::plan_after(int rank, int after, double now_s) {
  heard_.last_s = now_s;
  return plans_.plan_after(ranks_.find(rank)->spec, after, history_, now_s);
}

void Job::ask(PlanningTask::Kind kind, std::string reason, bool quick_first) {
  outbox_.changes.planning = PlanningTask{.kind = kind,
                                          .job = id(),
                                          .serial = ++planning_.serial,
                                          .model = planning_.model,
                                          .conditions = conditions(),
                                          .reason = std::move(reason),
                                          .quick_first = quick_first};
}

void Job::replan(const std::string& reason) {
  if (!planning_.model) return;  // the first plan is asked for with the conditions of then
  if (status_.state == JobState::observing && status_.plan_failed) change_state(JobState::planning, "plans");
  if (status_.state == JobState::planning || status_.state == JobState::running)
    ask(PlanningTask::Kind::plan, reason, true);
}

SlowRanks Job::slow_ranks() const {
  SlowRanks slow = watch_.slow();
  for (const auto& [rank, known] : targets_.slow()) slow[rank] = known;
  return slow;
}

PlanningConditions Job::conditions() const {
  PlanningConditions conditions;
  conditions.slowdown_pct = targets_.allowed_slowdown_pct();
  // A guard by another limit does not count: the next plan is given a new one, or none under a cap.
  if (!targets_.power_limit() && guard_.has_limit(targets_.guard_limit_pct())) {
    conditions.slowdown_pct *= guard_.allowed_share();
  }
  // Of the tp ranks that share a position the slowest counts.
  std::map<std::pair<int, int>, double> slowest;
  for (const auto& [rank, slow] : slow_ranks()) {
    const protocol::RankSpec& spec = ranks_.find(rank)->spec;
    double& factor = slowest.try_emplace({spec.dp_rank, spec.pp_rank}, slow.factor).first->second;
    factor = std::max(factor, slow.factor);
  }
  for (const auto& [place, factor] : slowest) {
    conditions.slow.push_back({.replica = place.first, .rank = place.second, .factor = factor});
  }
  conditions.power = targets_.power_limit();
  if (conditions.power) conditions.node_of_gpu = ranks_.hosts();
  return conditions;
}

void Job::planned(PlanningAnswer answer, double now_s) {
  if (answer.serial != planning_.serial || is_over()) return;
  if (!answer.error.empty()) return give_plan_up(answer.error, now_s);
  if (answer.verdict) take_verdict(*answer.verdict, now_s);
  if (answer.plan) issue_plan(answer, now_s);
}

/// A job that follows a plan keeps it, guarded by what is wanted now.
void Job::give_plan_up(const std::string& error, double now_s) {
  decide("failed", error, now_s);
  if (status_.state == JobState::profiling) {
    profiling_.drop_own();  // another job's may be better
    planning_.model.reset();
    return observe(error, now_s, kLongestRetryS);  // by a verdict: there is no profile to plan from
  }
  const std::string reason = targets_.power_limit() ? fmt::format("the power cap ({}) is not kept: {}",
                                                                  describe(targets_.power_limit()), error)
                                                    : error;
  if (status_.state == JobState::running) {
    // The server was started again, or other settings hold.
    if (plans_.training() != nullptr && !guard_.has_limit(targets_.guard_limit_pct())) {
      guard_.keep_to(targets_.guard_limit_pct(), plans_.training()->time_s, baseline_.result());
      if (guard_.requires_full_clocks()) hold_full_clocks(reason, now_s);
    }
    return change_state(JobState::running, reason);
  }
  status_.retry_after_s = std::clamp(2 * status_.retry_after_s, kShortestRetryS, kLongestRetryS);
  observe(reason, now_s, status_.retry_after_s);
  status_.plan_failed = true;
}

void Job::issue_plan(const PlanningAnswer& answer, double now_s) {
  const JobPlan& plan = *answer.plan;
  planning_.frontier = plan.frontier;
  guard_.follow(plan, targets_.power_limit().has_value(), baseline_.result(), targets_.guard_limit_pct());
  status_.retry_after_s = 0;
  change_state(JobState::running, "follows a plan");
  if (guard_.requires_full_clocks()) return hold_full_clocks(answer.reason, now_s);
  const PlanVersion* training = plans_.training();
  if (training != nullptr && training == plans_.newest() && same_clocks(*training, plan)) {
    decide("plan", answer.reason + "; the present plan is the best for it", now_s);
    return;
  }
  PlanVersion version;
  version.purpose = protocol::PlanPurpose::train;
  version.reason = plan.note.empty() ? answer.reason : answer.reason + "; " + plan.note;
  if (answer.preliminary) version.reason += "; a better one follows";
  version.time_s = plan.time_s;
  version.energy_j = plan.energy_j;
  version.plans = plan.plans;
  version.plan_of_replica = plan.plan_of_replica;
  version.expected_compute_s = plan.expected_compute_s;
  issue(std::move(version), now_s);
  plans_.train_by_newest();
}

/// What the ranks follow need not be full clocks: the guard may just have taken them for what a plan would cost, and
/// after a profile its last clock is in force.
void Job::hold_full_clocks(const std::string& reason, double now_s) {
  const int clock_mhz = full_clock_mhz();
  const PlanVersion& in_force = *plans_.newest();
  const bool watches_ranks =
      in_force.purpose != protocol::PlanPurpose::train || !in_force.expected_compute_s.empty() || !planning_.model;
  if (in_force.purpose != protocol::PlanPurpose::profile && watches_ranks && holds_clock(in_force, clock_mhz)) {
    decide("guard", reason + "; full clocks stay in effect nevertheless", now_s);
    return;
  }
  decide("guard", reason + "; the time that the job may still lose is too short for a plan: full clocks", now_s);
  issue_uniform(protocol::PlanPurpose::train, clock_mhz, "full clocks: " + reason, now_s);
}

std::int64_t Job::carry_out(const JobTargets::Change& change, double now_s) {
  if (change.set_by != 0) return change.set_by;
  const std::int64_t decision = decide(name(change.target), change.reason, now_s);
  targets_.note(change, decision);
  outbox_.changes.summary_changed = true;
  replan(change.reason);
  return decision;
}

std::int64_t Job::set_straggler(int rank, double factor, double now_s) {
  const JobTargets::Change change = targets_.set_straggler(rank, factor, watch_.slow().contains(rank));
  if (change.set_by == 0 && factor == 1) watch_.forget(rank);
  return carry_out(change, now_s);
}

std::int64_t Job::set_power_limit(const std::optional<PowerLimit>& limit, double now_s) {
  return carry_out(targets_.set_power_limit(limit), now_s);
}

std::int64_t Job::set_settings(std::optional<double> slowdown_pct, std::optional<double> guard_pct, double now_s) {
  return carry_out(targets_.set_settings(slowdown_pct, guard_pct), now_s);
}

void Job::set_signal(double slowdown_pct, std::string_view why, double now_s) {
  if (is_over() || !targets_.set_signal(slowdown_pct)) return;
  decide("signal", std::string(why), now_s);
  replan(std::string(why));
}

}  // namespace lowgear::server

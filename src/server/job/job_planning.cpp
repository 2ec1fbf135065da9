#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/core/error.h"
#include "base/core/units.h"
#include "rivals/policies/published_policies.h"
#include "server/job/job.h"

/// A job's plans: the conditions of requests, and the delivery to the ranks.
namespace lowgear::server {
namespace {

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
  const PlanVersion& issued = record_.plans.issue(std::move(version), record_.history, now_s);
  outbox_.changes.store.plans.push_back({record_.id, issued.version, write_plan_version(issued)});
  decide("plan", fmt::format("{}; from iteration {}", issued.reason, issued.from_iteration), now_s);
  outbox_.changes.summary_changed = true;
}

std::shared_ptr<const std::string> Job::plan_after(int rank, int after, double now_s) {
  record_.status.heard_s = now_s;
  RegisteredRank* registered = record_.ranks.find(rank);
  if (registered == nullptr) return nullptr;
  registered->heard_s = now_s;
  return record_.plans.plan_after(registered->spec, after, record_.history, now_s);
}

void Job::ask(PlanningTask::Kind kind, std::string reason, bool quick_first) {
  outbox_.changes.planning = PlanningTask{.kind = kind,
                                          .job = record_.id,
                                          .serial = ++planning_.serial,
                                          .model = planning_.model,
                                          .conditions = conditions(),
                                          .reason = std::move(reason),
                                          .quick_first = quick_first};
}

void Job::replan(const std::string& reason) {
  if (!planning_.model) return;  // the first plan is asked for with the conditions of then
  if (record_.status.state == JobState::observing && record_.status.plan_failed)
    change_state(JobState::planning, "plans");
  if (record_.status.state == JobState::planning || record_.status.state == JobState::running)
    ask(PlanningTask::Kind::plan, reason, true);
}

PlanningConditions Job::conditions() const {
  PlanningConditions conditions;
  workflow::PlanRequest& request = conditions.request;
  request.slowdown_pct = record_.targets.allowed_slowdown_pct();
  // A guard by another limit does not count: the next plan is given a new one, or none under a cap.
  if (!record_.targets.is_capped() && guard_.has_limit(record_.targets.guard_limit_pct())) {
    *request.slowdown_pct *= guard_.allowed_share();
  }
  // Of the tp ranks that share a position the slowest counts.
  std::map<std::pair<int, int>, double> slowest;
  for (const auto& [rank, slow] : slow_ranks(record_)) {
    const protocol::RankSpec& spec = record_.ranks.find(rank)->spec;
    double& factor = slowest.try_emplace({spec.dp_rank, spec.pp_rank}, slow.factor).first->second;
    factor = std::max(factor, slow.factor);
  }
  for (const auto& [place, factor] : slowest) {
    request.slow.push_back({.replica = place.first, .rank = place.second, .factor = factor});
  }
  request.power_cap = record_.targets.power_cap();
  if (request.power_cap) request.node_of_gpu = record_.ranks.hosts();
  request.policy = name(record_.policy);
  // EnvPipe keeps the order in which the ranks run.
  request.policies = policies::published_policies({.envpipe = {.order = policies::EnvPipeOptions::Order::given}});
  if (planning_.order_is_due) conditions.early_forwards = early_forwards(record_.spec);
  if (record_.spec.envpipe) {
    conditions.envpipe =
        EnvPipeRequest{.settings = *record_.spec.envpipe, .state = record_.envpipe.state, .receive_s = {}};
  }
  return conditions;
}

void Job::planned(PlanningAnswer answer, double now_s) {
  if (answer.serial != planning_.serial || record_.is_over()) return;
  if (!answer.error.empty()) return give_plan_up(answer.error, now_s);
  if (answer.verdict) take_verdict(*answer.verdict, now_s);
  if (answer.planned && answer.planned->order) take_order(*answer.planned->order, now_s);
  if (answer.planned) issue_plan(answer, now_s);
}

/// A job that follows a plan keeps it, guarded by what is wanted now.
void Job::give_plan_up(const std::string& error, double now_s) {
  decide("failed", error, now_s);
  if (record_.status.state == JobState::profiling) {
    record_.profiling.drop_own();  // another job's may be better
    planning_.model.reset();
    return observe(error, now_s, kProfileRetryS);  // by a verdict: there is no profile to plan from
  }
  const std::string reason = record_.targets.power_cap() ? fmt::format("the power cap ({}) is not kept: {}",
                                                                       describe(record_.targets.power_cap()), error)
                                                         : error;
  if (record_.status.state == JobState::running) {
    // The server was started again, or other settings hold.
    if (record_.plans.training() != nullptr && !guard_.has_limit(record_.targets.guard_limit_pct())) {
      guard_.keep_to(record_.targets.guard_limit_pct(), record_.plans.training()->time_s, record_.baseline.result());
      if (guard_.requires_full_clocks()) hold_full_clocks(reason, now_s);
    }
    return change_state(JobState::running, reason);
  }
  observe(reason, now_s, planning_.backoff.next());
  record_.status.plan_failed = true;
}

void Job::issue_plan(const PlanningAnswer& answer, double now_s) {
  const JobPlan& plan = answer.planned->plan;
  const std::optional<EnvPipeOutcome>& envpipe = answer.planned->envpipe;
  if (!(plan.time_s <= kMaxTimeS)) {  // neither ranks nor a server that starts again would read it
    return give_plan_up(fmt::format("iterations of {:.3g} s are longer than a plan's may be", plan.time_s), now_s);
  }
  if (plan.note != std::exchange(planning_.note, plan.note) && !plan.note.empty()) {
    outbox_.changes.warnings.push_back(plan.note);
  }
  if (envpipe && take_envpipe(answer, now_s)) return;
  record_.frontier = plan.frontier;
  record_.power = plan.power;
  guard_.follow(plan, record_.targets.is_capped(), record_.baseline.result(), record_.targets.guard_limit_pct());
  planning_.backoff.reset();
  change_state(JobState::running, "follows a plan");
  if (guard_.requires_full_clocks()) return hold_full_clocks(answer.reason, now_s);
  const PlanVersion* training = record_.plans.training();
  if (training != nullptr && training == record_.plans.newest() && same_clocks(*training, plan)) {
    decide("plan", answer.reason + "; the present plan is the best for it", now_s);
    return;
  }
  PlanVersion version;
  version.purpose = protocol::PlanPurpose::train;
  version.reason = plan.note.empty() ? answer.reason : answer.reason + "; " + plan.note;
  if (envpipe && envpipe->raised > 0) {
    version.reason +=
        fmt::format(": clocks of {} units rise, of {} on the critical path", envpipe->raised, envpipe->path);
  }
  if (answer.preliminary) version.reason += "; a better one follows";
  version.time_s = plan.time_s;
  version.energy_j = plan.energy_j;
  version.plans = plan.plans;
  version.plan_of_replica = plan.plan_of_replica;
  version.expected_compute_s = plan.expected_compute_s;
  issue(std::move(version), now_s);
  record_.plans.train_by_newest();
  if (envpipe) record_.envpipe.version = record_.plan_version();
}

/// What the ranks follow need not be full clocks: the guard may just have taken them for what a plan would cost, and
/// after a profile its last clock is in force.
void Job::hold_full_clocks(const std::string& reason, double now_s) {
  const int clock_mhz = full_clock_mhz();
  const PlanVersion& in_force = *record_.plans.newest();
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
  record_.targets.note(change, decision);
  outbox_.changes.summary_changed = true;
  replan(change.reason);
  return decision;
}

std::int64_t Job::set(const JobTarget& target, double now_s) {
  if (const auto* cap = std::get_if<std::optional<PowerCap>>(&target)) {
    return carry_out(record_.targets.set_power_cap(*cap), now_s);
  }
  if (const auto* slowdown = std::get_if<SlowdownTarget>(&target)) {
    return carry_out(record_.targets.set_settings(slowdown->slowdown_pct, slowdown->guard_pct), now_s);
  }
  const auto& straggler = std::get<StragglerTarget>(target);
  const bool is_detected = record_.watch.slow().contains(straggler.rank);
  const JobTargets::Change change = record_.targets.set_straggler(straggler.rank, straggler.factor, is_detected);
  if (change.set_by == 0 && straggler.factor == 1) record_.watch.forget(straggler.rank);
  return carry_out(change, now_s);
}

void Job::set_signal(double slowdown_pct, std::string_view why, double now_s) {
  if (record_.is_over() || !record_.targets.set_signal(slowdown_pct)) return;
  decide("signal", std::string(why), now_s);
  replan(std::string(why));
}

void Job::set_budget(double slowdown_pct, std::string_view why, double now_s) {
  if (record_.is_over() || !record_.targets.set_budget(slowdown_pct)) return;
  decide("budget", std::string(why), now_s);
  outbox_.changes.summary_changed = true;
  replan(std::string(why));
}

}  // namespace lowgear::server

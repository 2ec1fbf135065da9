#include "server/job/job_transitions.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/core/error.h"
#include "base/core/units.h"

namespace lowgear::server {
namespace {

/// From the time when no rank follows plans to the next attempt; at once when one does again.
constexpr double kRefusedRetryS = 3'600;

template <typename... Functions>
struct StepVisitor : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
StepVisitor(Functions...) -> StepVisitor<Functions...>;

/// Reasons of a job that runs.
constexpr std::string_view kFollowsPlan = "follows a plan";
constexpr std::string_view kPlanWithdrawn = "full clocks: the guard has withdrawn the plan";

/// `full clocks take`, or `full clocks now take`.
std::string baseline_text(std::string_view full_clocks_take, const IterationMeans& means) {
  return fmt::format("{} {:.4g} s ± {:.2g} s per iteration on average ({} iterations; stalled and not counted: {})",
                     full_clocks_take, means.time_s, means.time_error_s, means.iterations, means.stalled);
}

}  // namespace

void JobTransitions::carry_out(JobStep step) {
  std::visit(
      StepVisitor{
          [](std::monostate) {},  //
          [&](IssuePlan& wanted) { issue(std::move(wanted.plan)); },
          [&](Observe& wanted) { observe(std::move(wanted.reason), wanted.retry_after_s); },
          [&](MeasureBaseline) { measure_baseline(); },  //
          [&](MeasureProfile) { measure_profile(); },
          [&](JudgeProfile) {
            use(*job_.profiling.own());
            ask(PlanningTask::Kind::judge_profile, "all requested clocks have been measured", false);
          },
          [&](PlanByProfile) {
            use(*job_.profiling.own());  // the last verdict may have been of more measurements
            outbox_.changes().store.documents.push_back(
                {"profile/" + profile_key(job_), write_measured_profile(*job_.profiling.own())});
            enter(JobState::planning, "plans");
            ask(PlanningTask::Kind::plan,
                fmt::format("planned from a profile of {} clocks", job_.profiling.sweep().measured().clocks()), false);
          },
          [&](RefuseProfile& wanted) { refuse_profile(wanted.reason); }, [&](Replan& wanted) { replan(wanted.reason); },
          [&](FullClocks& wanted) {
            issue_full_clocks(wanted.reason);
            // Why a power cap is not kept stays.
            if (job_.status.reason == kFollowsPlan) enter(JobState::running, std::string(kPlanWithdrawn));
          },
          [&](RenewBaseline wanted) { renew_baseline(wanted.iterations); }},
      step);
}

void JobTransitions::enter(JobState state, std::string reason) {
  job_.status.state = state;
  job_.status.reason = std::move(reason);
  outbox_.change_state();
  outbox_.change_summary();
}

ProfiledJob JobTransitions::profiled() const {
  return {.spec = job_.spec,
          .layout = job_.layout,
          .ranks = job_.ranks,
          .plans = job_.plans,
          .baseline = job_.baseline.result(),
          .latest_iteration = job_.history.latest()};
}

void JobTransitions::begin(const MeasuredProfiles& profiles) {
  if (job_.plans_itself()) return observe("the job plans its own steps");
  if (job_.ranks.common_clocks().empty()) {
    return observe(
        "no clock could be set at the start on the ranks of every stage: no agent that may set them, or different "
        "GPUs (a rank's refusal says which); the job runs at full clocks until it is started again");
  }
  const auto known = profiles.find(profile_key(job_));
  if (known != profiles.end()) return take(known->second);
  job_.order.report_assumed(job_.spec, outbox_, now_s_);
  if (!job_.spec.profiling) {
    return observe(
        "there is no profile of this model yet, and the job measures none (profile: null); one without a pipeline can "
        "search its clock in place of --server: lowgear run --search slowdown=2%");
  }
  measure_profile();
}

void JobTransitions::observe(std::string reason, std::optional<double> retry_after_s) {
  outbox_.decide("observe", reason, now_s_);
  job_.status.plan_failed = false;
  job_.profiling.end_judging();
  job_.status.retry_s = retry_after_s ? std::optional(now_s_ + *retry_after_s) : std::nullopt;
  enter(JobState::observing, std::move(reason));
  // From now on nothing watches what a plan costs.
  if (job_.plans.newest() == nullptr || job_.plans.newest()->purpose == protocol::PlanPurpose::baseline) return;
  issue_full_clocks(job_.status.reason);
}

void JobTransitions::measure_baseline() {
  if (std::string why = job_.ranks.text_of_refusing_stage(); !why.empty()) {
    return observe(std::move(why), kRefusedRetryS);
  }
  enter(JobState::baseline, "measures iterations at full clocks, for comparison");
  issue(baseline_plan(job_.layout, job_.ranks.common_clocks().front()));
  job_.baseline.begin(job_.plan_version(), now_s_);  // a profile that failed may have left one of another time
}

/// Full clocks come first: what trials cost is counted against them.
void JobTransitions::measure_profile() {
  if (const std::string why = job_.ranks.text_of_refusing_stage(); !why.empty() && job_.planning.model()) {
    outbox_.decide("profile", "not measured again, as " + why, now_s_);
    return;
  }
  job_.watch.profile().begin_profile(now_s_);
  job_.planning.withdraw();  // it plans by the profile that is replaced
  job_.profiling.begin(job_.plan_version() + 1);
  measure_baseline();
}

void JobTransitions::use(const MeasuredProfile& profile) {
  job_.order.expect();
  job_.planning.use(pipeline_model(job_, profile));
}

/// The job stays at full clocks, or measures a profile of its own where it had that of another one.
void JobTransitions::refuse_profile(const std::string& reason) {
  const bool is_own = job_.profiling.own() != nullptr;
  job_.profiling.drop_own();  // another job's may be better
  job_.planning.drop_model();
  if (!is_own && job_.spec.profiling) {
    outbox_.decide("profile", reason + ": the profile of another job is left, and the job measures its own", now_s_);
    return measure_profile();
  }
  if (!job_.spec.profiling) return observe(reason + ": no plan is made from this profile");
  observe(reason +
              ": no plan is made, and profiling is tried again in an hour; stalled iterations do this, so keep "
              "other work off the job's machines",
          kProfileRetryS);
}

void JobTransitions::take(const std::shared_ptr<const MeasuredProfile>& profile) {
  if (job_.plans_itself()) return;
  if (job_.planning.model() || job_.is_over() || !job_.ranks.complete() || job_.ranks.common_clocks().empty()) return;
  const bool measures_its_own =
      job_.state() == JobState::profiling || (job_.state() == JobState::baseline && job_.profiling.sweep().is_new());
  if (measures_its_own) return;
  job_.profiling.skip();
  use(*profile);
  outbox_.decide("profile", "there is a profile of the same model, partition and GPU: profiling is skipped", now_s_);
  measure_baseline();
}

void JobTransitions::take(const JobIteration& iteration) {
  if (job_.state() == JobState::baseline && job_.baseline.result()) {
    const IterationMeans& baseline = *job_.baseline.result();
    outbox_.decide("baseline", baseline_text("full clocks take", baseline), now_s_);
    job_.watch.guard().set_baseline(baseline);
    if (job_.profiling.sweep().is_new()) {
      enter(JobState::profiling, "tries clocks out");
      return carry_out(job_.profiling.begin_trials(profiled()));
    }
    enter(JobState::planning, "plans");
    ask(PlanningTask::Kind::plan, "planned from an existing profile", false);
  }
  if (job_.state() == JobState::profiling) carry_out(job_.profiling.count(iteration, profiled(), outbox_));
  JobWatch& watch = job_.watch;
  // Times that mean nothing say nothing of ranks, profile and plan.
  const auto is_running = [this] { return job_.state() == JobState::running && job_.invalid.empty(); };
  const int first_version = job_.profiling.sweep().first_version();
  if (is_running()) carry_out(watch.watch_ranks(iteration, job_.plans, job_.ranks, first_version, outbox_, now_s_));
  if (is_running() && job_.spec.profiling) carry_out(watch.watch_drift(iteration, outbox_, now_s_));
  // Not once the ranks have begun to be profiled anew: they would leave those clocks for the guard's.
  if (is_running()) carry_out(watch.watch_slowdown(iteration, job_.plans, job_.activity, outbox_, now_s_));
  if (is_running()) ask_envpipe(iteration);
}

void JobTransitions::watch() {
  JobStatus& status = job_.status;
  if (job_.state() == JobState::baseline) {
    carry_out(job_.baseline.watch(job_.plans, job_.history.latest(), now_s_));
  }
  if (job_.state() == JobState::profiling) carry_out(job_.profiling.watch(profiled(), outbox_, now_s_));
  if (job_.state() != JobState::observing || !status.retry_s || now_s_ < *status.retry_s) return;
  if (job_.ranks.followers() == 0 || !job_.ranks.text_of_refusing_stage().empty()) return;
  status.retry_s.reset();
  if (status.plan_failed) return replan("planning is tried again");
  if (job_.planning.model() || !job_.spec.profiling) return measure_baseline();
  outbox_.decide("profile", "profiling is tried, as the job has no profile", now_s_);
  measure_profile();
}

void JobTransitions::end_trials() {
  if (job_.state() == JobState::profiling) carry_out(job_.profiling.end_trials(profiled(), outbox_, now_s_));
}

void JobTransitions::measure_again() {
  const bool measures = job_.state() != JobState::registering && job_.state() != JobState::observing;
  if (!job_.baseline.is_of_no_use() || !measures || job_.ranks.followers() == 0) return;
  outbox_.decide("profile", "measured again, as times and energies meant nothing before", now_s_);
  job_.watch.guard() = {};
  if (job_.spec.profiling) return measure_profile();
  measure_baseline();
}

void JobTransitions::lose_followers(const std::string& reason) {
  job_.planning.withdraw();  // no rank would follow the plan
  if (job_.state() == JobState::observing) return;
  const bool others_follow = job_.ranks.followers() > 0;
  observe(others_follow ? job_.ranks.text_of_refusing_stage() : reason + "; nor does another rank", kRefusedRetryS);
}

void JobTransitions::issue(PlanVersion plan) {
  const PlanVersion& issued = job_.plans.issue(std::move(plan), job_.history, now_s_);
  outbox_.issue(issued, now_s_);
  if (issued.purpose == protocol::PlanPurpose::profile) job_.profiling.begin_round(issued, now_s_);
}

void JobTransitions::issue_full_clocks(const std::string& reason) {
  const int clock_mhz = job_.ranks.common_clocks().front();
  PlanVersion plan = job_.layout.uniform_plan(protocol::PlanPurpose::full_clocks, clock_mhz);
  plan.reason = "full clocks: " + reason;
  // Ranks are watched at full clocks, too.
  if (const auto& model = job_.planning.model()) {
    plan.expected_compute_s = job_.layout.compute_s(model->measured.cells, clock_mhz);
  }
  issue(std::move(plan));
}

/// The guard may just have set full clocks for the time that a plan would cost; after a profile, its last clock is in
/// force.
void JobTransitions::hold_full_clocks(const std::string& reason) {
  job_.activity.guard_decision("refuse_plan");
  const std::string decision =
      "the guard allows full clocks only: by a plan the job could lose more time than it may; occasion: " + reason;
  const PlanVersion& in_force = *job_.plans.newest();
  const bool watches_ranks =
      !protocol::is_for_training(in_force.purpose) || !in_force.expected_compute_s.empty() || !job_.planning.model();
  if (in_force.purpose != protocol::PlanPurpose::profile && watches_ranks &&
      in_force.only_mhz == job_.ranks.common_clocks().front()) {
    if (job_.watch.take_plan(reason, false)) {
      outbox_.decide("guard", decision, now_s_);
    }
    return;
  }
  outbox_.decide("guard", decision, now_s_);
  issue_full_clocks(decision);
}

void JobTransitions::ask(PlanningTask::Kind kind, std::string reason, bool quick_first) {
  outbox_.changes().planning = job_.planning.ask({.kind = kind,
                                                  .job = job_.id,
                                                  .model = {},
                                                  .conditions = planning_conditions(job_),
                                                  .reason = std::move(reason),
                                                  .quick_first = quick_first});
}

void JobTransitions::ask_envpipe(const JobIteration& iteration) {
  if (!job_.spec.envpipe || !job_.planning.model()) return;
  if (!job_.envpipe.decides_by(iteration, job_.plan_version(), job_.planning.serial())) return;
  ask(PlanningTask::Kind::plan, fmt::format("envpipe: after iteration {}", iteration.iteration), false);
  outbox_.changes().planning->conditions.envpipe->receive_s =
      receive_waits_s(iteration, job_.ranks, job_.layout.schedule());
  job_.envpipe.ask(job_.planning.serial());
}

void JobTransitions::replan(const std::string& reason) {
  if (!job_.planning.model()) return;  // the first plan is asked for with the conditions of then
  if (job_.state() == JobState::observing && job_.status.plan_failed) enter(JobState::planning, "plans");
  if (job_.state() == JobState::planning || job_.state() == JobState::running) {
    ask(PlanningTask::Kind::plan, reason, true);
  }
}

void JobTransitions::take(const PlanningAnswer& answer) {
  if (answer.serial != job_.planning.serial() || job_.is_over()) return;
  if (!answer.error.empty()) return give_plan_up(answer.error);
  if (answer.verdict && job_.state() == JobState::planning) return refuse_profile(answer.verdict->contradiction);
  if (answer.verdict) carry_out(job_.profiling.take_verdict(*answer.verdict, profiled(), outbox_, now_s_));
  if (answer.planned && answer.planned->order) job_.order.take(*answer.planned->order, outbox_, now_s_);
  if (answer.planned) follow_plan(answer);
}

/// A job that follows a plan keeps it, guarded by the present limit.
void JobTransitions::give_plan_up(const std::string& error) {
  outbox_.decide("failed", error, now_s_);
  if (job_.state() == JobState::profiling) {
    job_.profiling.drop_own();  // another job's may be better
    job_.planning.drop_model();
    return observe(error, kProfileRetryS);  // by a verdict: there is no profile to plan from
  }
  const auto& cap = job_.targets.power_cap();
  const std::string reason = cap ? fmt::format("the power cap ({}) is not kept: {}", describe(cap), error) : error;
  if (job_.state() == JobState::running) {
    PlanGuard& guard = job_.watch.guard();
    const double limit_pct = job_.targets.guard_limit_pct();
    // The server was started again, or other settings hold.
    if (job_.plans.training() != nullptr && !guard.has_limit(limit_pct)) {
      guard.keep_to(limit_pct, job_.plans.training()->time_s, job_.baseline.result());
      if (guard.requires_full_clocks()) hold_full_clocks(reason);
    }
    return enter(JobState::running, reason);
  }
  observe(reason, job_.planning.next_retry_s());
  job_.status.plan_failed = true;
}

void JobTransitions::follow_plan(const PlanningAnswer& answer) {
  const JobPlan& plan = answer.planned->plan;
  const std::optional<EnvPipeOutcome>& envpipe = answer.planned->envpipe;
  if (!(plan.time_s <= kMaxTimeS)) {  // neither ranks nor a server that starts again would read it
    return give_plan_up(fmt::format("iterations of {:.3g} s are longer than a plan supports", plan.time_s));
  }
  if (envpipe && !job_.envpipe.take(*envpipe, answer.serial, outbox_, now_s_)) return;
  if (job_.planning.follow(*answer.planned)) outbox_.changes().warnings.push_back(answer.planned->doubts);
  PlanGuard& guard = job_.watch.guard();
  guard.follow(plan, job_.targets.is_capped(), job_.baseline.result(), job_.targets.guard_limit_pct());
  enter(JobState::running, std::string(guard.requires_full_clocks() ? kPlanWithdrawn : kFollowsPlan));
  if (guard.requires_full_clocks()) return hold_full_clocks(answer.reason);
  const PlanVersion* training = job_.plans.training();
  const bool is_new = training == nullptr || training != job_.plans.newest() || !same_clocks(*training, plan);
  const bool is_listed = job_.watch.take_plan(answer.reason, is_new);
  if (!is_new) {
    if (is_listed) outbox_.decide("plan", answer.reason + "; the present plan is the best for it", now_s_);
    return;
  }
  issue(training_plan(answer));
  job_.plans.train_by_newest();
  if (envpipe) job_.envpipe.follow(job_.plan_version());
}

void JobTransitions::renew_baseline(int iterations) {
  const IterationMeans means = means_of(job_.history.recent(job_.plan_version(), static_cast<std::size_t>(iterations)));
  if (means.iterations < 2) return;
  job_.baseline.renew(means);
  job_.watch.guard().set_baseline(means);
  outbox_.decide("baseline", baseline_text("full clocks now take", means), now_s_);
}

/// A job that was about to be planned for by a profile that the store does not have any more.
void JobTransitions::replace_lost_profile() {
  const bool needs_it =
      job_.state() == JobState::planning || (job_.state() == JobState::baseline && !job_.profiling.sweep().is_new());
  if (!needs_it) return;
  if (!job_.spec.profiling) return observe("the profile for its plan is lost");
  measure_profile();
}

void JobTransitions::resume(const MeasuredProfiles& profiles) {
  if (job_.state() == JobState::registering) return;  // profiles are looked at once all ranks are there
  const bool led_to_no_profile = job_.state() == JobState::observing && !job_.status.plan_failed;
  const TrialSweep& sweep = job_.profiling.sweep();
  if (!sweep.measured().empty() && job_.state() != JobState::profiling && !led_to_no_profile) {
    try {
      job_.profiling.merge(job_.layout.stages(), job_.ranks.simulated());
    } catch (const InputError&) {
      // No profile came of it, as was decided then.
    }
  }
  if (job_.state() == JobState::profiling) {
    return job_.baseline.result() && sweep.rounds() > 0 ? end_trials() : measure_profile();
  }
  const auto known = profiles.find(profile_key(job_));
  if (job_.profiling.own()) {
    use(*job_.profiling.own());
  } else if (known != profiles.end()) {
    // It may have become known as the server ended.
    if (led_to_no_profile) {
      // Not after drift: the job was to be profiled again as this one does not fit it any more.
      if (sweep.first_version() <= 1) take(known->second);
      return;
    }
    use(*known->second);
  }
  if (!job_.planning.model()) return replace_lost_profile();
  replan("the server was restarted");
}

}  // namespace lowgear::server

#include "server/job/job_planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace lowgear::server {

PlanningTask JobPlanning::ask(PlanningTask task) {
  task.serial = ++serial_;
  task.model = model_;
  return task;
}

bool JobPlanning::follow(const PlannedJob& planned) {
  frontier_ = planned.plan.frontier;
  power_ = planned.plan.power;
  backoff_.reset();
  doubts_ = planned.doubts;
  if (known_doubts_.size() >= kMostDoubts) known_doubts_.clear();
  return !doubts_.empty() && known_doubts_.insert(doubts_).second;
}

void JobPlanning::drop_model() {
  model_.reset();
  doubts_.clear();
  frontier_.clear();
  power_ = {};
}

PlanVersion training_plan(const PlanningAnswer& answer) {
  const JobPlan& plan = answer.planned->plan;
  const std::optional<EnvPipeOutcome>& envpipe = answer.planned->envpipe;
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
  return version;
}

namespace {

bool plans_have_same_clocks(const plan::Plan& a, const plan::Plan& b) {
  return std::ranges::equal(a.ranks, b.ranks, [](const auto& left, const auto& right) {
    return std::ranges::equal(left, right, {}, &plan::PlannedOp::clock_mhz, &plan::PlannedOp::clock_mhz);
  });
}

}  // namespace

bool same_clocks(const PlanVersion& version, const JobPlan& plan) {
  if (version.plan_of_replica.size() != plan.plan_of_replica.size()) return false;
  for (std::size_t replica = 0; replica < plan.plan_of_replica.size(); ++replica) {
    const plan::Plan& now = version.plan_of(static_cast<int>(replica));
    const plan::Plan& other = plan.plans.at(static_cast<std::size_t>(plan.plan_of_replica[replica]));
    if (!plans_have_same_clocks(now, other)) return false;
  }
  return true;
}

}  // namespace lowgear::server

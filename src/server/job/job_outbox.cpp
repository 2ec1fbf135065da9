#include "server/job/job_outbox.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <utility>

namespace lowgear::server {

std::string_view name(ServerEvent event) {
  constexpr std::array<std::string_view, 11> kNames = {
      "decision",        "job_registered", "job_ended",    "job_lost",    "plans_refused",  "plans_followed",
      "budget_exceeded", "budget_kept",    "agent_silent", "agent_heard", "agent_forgotten"};
  return kNames[static_cast<std::size_t>(event)];
}

JobOutbox::JobOutbox(std::string job) : job_(std::move(job)) { changes_.summary_changed = true; }

void JobOutbox::restore(std::int64_t decisions, int plan_version) {
  decisions_ = decisions;
  plan_version_ = plan_version;
  state_has_changed_ = false;
}

Json JobOutbox::next_decision(std::string_view kind, const std::string& reason, double time_s) const {
  return {{"id", decisions_ + 1},
          {"time_s", time_s},
          {"kind", kind},
          {"plan_version", plan_version_ == 0 ? Json(nullptr) : Json(plan_version_)},
          {"reason", reason}};
}

void JobOutbox::keep(Json decision) {
  state_has_changed_ = true;
  changes_.store.decisions.push_back({job_, ++decisions_, decision["time_s"].get<double>(), decision.dump()});
  changes_.decisions.push_back(std::move(decision));
}

std::int64_t JobOutbox::decide(std::string_view kind, const std::string& reason, double now_s) {
  keep(next_decision(kind, reason, now_s));
  return decisions_;
}

void JobOutbox::add_training_decision(int rank, const protocol::TrainingDecision& made, double time_s) {
  Json decision = next_decision("technique", made.reason, time_s);
  decision["rank"] = rank;
  decision["technique"] = made.technique;
  decision["change"] = made.change;
  decision["from_iteration"] = made.from_iteration;
  decision["configuration"] = made.configuration;
  keep(std::move(decision));
}

void JobOutbox::issue(const PlanVersion& plan, double now_s) {
  plan_version_ = plan.version;
  changes_.store.plans.push_back({job_, plan.version, write_plan_version(plan)});
  // Ranks may have begun any iteration before they have reported one.
  const std::string begin =
      plan.from_iteration == 0 ? "as soon as all ranks have it" : fmt::format("from iteration {}", plan.from_iteration);
  Json decision = next_decision("plan", fmt::format("{}; {}", plan.reason, begin), now_s);
  decision["purpose"] = protocol::name(plan.purpose);
  keep(std::move(decision));
  change_summary();
}

void JobOutbox::send(ServerEvent event, std::string reason, double now_s) {
  changes_.events.push_back({event, std::move(reason), now_s});
}

bool JobOutbox::take_state_change() { return std::exchange(state_has_changed_, false); }

JobChanges JobOutbox::take() { return std::exchange(changes_, {}); }

}  // namespace lowgear::server

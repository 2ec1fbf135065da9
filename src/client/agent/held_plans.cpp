#include "client/agent/held_plans.h"

#include <utility>

namespace lowgear::client {

void HeldPlans::follow_now(HeldPlan plan, std::uint64_t begun) {
  plan.from_iteration = begun;
  versions_.follow(begun, plan.version);
  current_ = std::move(plan);
  followed_ = true;
}

void HeldPlans::follow_later(HeldPlan plan, std::uint64_t begun) {
  if (next_) {
    versions_.forget_from(next_->from_iteration);
    if (begun > next_->from_iteration) versions_.follow(next_->from_iteration, 0);
  }
  versions_.follow(plan.from_iteration, plan.version);
  next_ = std::move(plan);
}

bool HeldPlans::begin_next(std::uint64_t begun, bool with_agent) {
  if (!next_ || begun <= next_->from_iteration) return false;
  current_ = std::exchange(next_, std::nullopt);
  followed_ = with_agent;
  return true;
}

std::optional<HeldPlan> HeldPlans::take_next() { return std::exchange(next_, std::nullopt); }

void HeldPlans::lose_agent(std::uint64_t begun) {
  followed_ = false;
  follow_none(begun);
}

void HeldPlans::forget() {
  current_.reset();
  next_.reset();
}

void HeldPlans::forget_versions(std::uint64_t begun) {
  follow_none(begun);
  if (current_) current_->version = 0;
  if (next_) next_->version = 0;
}

}  // namespace lowgear::client

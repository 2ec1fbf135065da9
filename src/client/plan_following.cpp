#include "client/plan_following.h"

#include <fmt/format.h>

#include "base/core/error.h"
#include "client/server/server_messages.h"
#include "protocol/json_members.h"

namespace lowgear::client {
namespace {

/// As much of a reason as the server takes.
std::string as_told(std::string_view reason) {
  const std::string text = fitting_text(reason, protocol::kMaxNameBytes);
  return text.empty() ? "the program gives no reason" : text;
}

}  // namespace

void PlanFollowing::end(State state, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::refused || state_ == state) return;
  state_ = state;
  reason_ = as_told(reason);
  if (lease_ != nullptr) lease_->withdraw(reason_);
  if (served_ != nullptr) served_->set_refusal(reason_);
}

void PlanFollowing::follow_again() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::follows) return;
  if (state_ == State::refused) throw LeaseRefused(fmt::format("plans are refused for good: {}", reason_));
  state_ = State::follows;
  reason_.clear();
  if (lease_ != nullptr) lease_->ask_again();
  if (served_ != nullptr) served_->set_refusal({});
}

void PlanFollowing::require() const {
  const std::lock_guard lock(mutex_);
  if (state_ != State::follows) throw LeaseRefused(fmt::format("plans are not followed: {}", reason_));
}

std::string PlanFollowing::why_not() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

}  // namespace lowgear::client

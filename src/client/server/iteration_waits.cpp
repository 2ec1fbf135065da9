#include "client/server/iteration_waits.h"

#include <algorithm>
#include <cstddef>

namespace lowgear::client {
namespace {

/// Iterations that were waited for and whose reports are still to come.
constexpr std::size_t kMostTaken = 1'000;

}  // namespace

void IterationWaits::set(const protocol::ReportsAnswer& answer) {
  wants_begins_.store(answer.wants_begins, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  asked_ = answer.delays;
}

void IterationWaits::set_iteration_s(double time_s) {
  const std::lock_guard lock(mutex_);
  iteration_s_ = time_s;
}

double IterationWaits::take_s(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  newest_ = std::max(newest_.value_or(0), iteration);
  if (!asked_ || (!taken_.empty() && taken_.back().first >= iteration)) return 0;
  const std::int64_t since = static_cast<std::int64_t>(iteration) - asked_->from_iteration;
  if (since < 0 || since >= asked_->iterations) return 0;
  const double wait_s = std::min(asked_->delay_s, kMostShare * iteration_s_);
  if (taken_.size() == kMostTaken) taken_.pop_front();
  taken_.emplace_back(iteration, wait_s);
  return wait_s;
}

bool IterationWaits::can_wait(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return newest_ && *newest_ >= iteration;
}

double IterationWaits::taken_s(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  while (!taken_.empty() && taken_.front().first < iteration) taken_.pop_front();
  return !taken_.empty() && taken_.front().first == iteration ? taken_.front().second : 0;
}

}  // namespace lowgear::client

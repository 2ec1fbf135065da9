#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "protocol/answers.h"

namespace lowgear::client {

/// Waits before iterations that the server asks for, so that the job keeps a phase against others, and those that the
/// training thread has taken. Safe from any thread.
class IterationWaits {
 public:
  /// What the server has answered to reports: it counts until the next answer.
  void set(const protocol::ReportsAnswer& answer);
  /// What an iteration took: a wait is at most kMostShare of it, whatever is asked for.
  void set_iteration_s(double time_s);
  /// How long to wait before this iteration; it counts as taken. Each iteration waits once.
  [[nodiscard]] double take_s(std::uint64_t iteration);
  /// Whether the program lets iterations be delayed: it has asked for the wait of this one or a later one.
  [[nodiscard]] bool can_wait(std::uint64_t iteration) const;
  /// What was taken before this iteration; what is older is forgotten.
  [[nodiscard]] double taken_s(std::uint64_t iteration);
  /// Reports should say when iterations begin.
  [[nodiscard]] bool wants_begins() const { return wants_begins_.load(std::memory_order_relaxed); }

  static constexpr double kMostShare = 0.1;

 private:
  std::atomic<bool> wants_begins_{false};
  mutable std::mutex mutex_;  ///< of the rest
  std::optional<protocol::IterationDelays> asked_;
  double iteration_s_ = 0;
  std::optional<std::uint64_t> newest_;                 ///< iteration that a wait was asked for
  std::deque<std::pair<std::uint64_t, double>> taken_;  ///< by iteration
};

}  // namespace lowgear::client

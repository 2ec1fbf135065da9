#pragma once

#include <atomic>
#include <string_view>
#include <thread>

#include "base/core/progress.h"

namespace lowgear::server {

/// Bounds what planning for one job takes: the planner's next report throws `Stopped` once the time is over, or once
/// the job is over. Time is what the thread has computed, so that a busy machine does not shorten it. Thread-safe.
class PlanningLimit final : public Progress {
 public:
  /// From now on the calling thread may compute for `seconds`. Other threads are not bounded.
  void begin(double seconds);
  /// As long as is needed, until the next `begin`.
  void end();
  /// For good, and for all threads.
  void stop() { switch_.stop(); }
  [[nodiscard]] bool is_stopped() const { return switch_.is_stopped(); }

  void update(std::string_view activity, double fraction) override;

 private:
  StopSwitch switch_;
  std::atomic<std::thread::id> bounded_{};  ///< that none has: nothing is bounded
  std::atomic<double> until_s_{0};          ///< of that thread's time
};

}  // namespace lowgear::server

#pragma once

#include <atomic>
#include <limits>
#include <string_view>

#include "core/monotonic_clock.h"
#include "core/progress.h"
#include "core/stop_switch.h"

namespace lowgear {

/// Bounds what planning for one job takes: the planner's next report throws `Stopped` once the time is over, or once
/// the job is over. Thread-safe.
class PlanningLimit final : public Progress {
 public:
  /// From now on `seconds` are left.
  void begin(double seconds) { until_s_.store(monotonic_s() + seconds, std::memory_order_relaxed); }
  /// As long as is needed, until the next `begin`.
  void end() { until_s_.store(kNever, std::memory_order_relaxed); }
  /// For good.
  void stop() { switch_.stop(); }
  [[nodiscard]] bool is_stopped() const { return switch_.is_stopped(); }

  void update(std::string_view activity, double fraction) override {
    switch_.update(activity, fraction);
    if (monotonic_s() > until_s_.load(std::memory_order_relaxed)) throw Stopped();
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  StopSwitch switch_;
  std::atomic<double> until_s_{kNever};
};

}  // namespace lowgear

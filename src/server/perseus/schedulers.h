#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rivals/formats/perseus_plan.h"
#include "server/perseus/scheduler.h"

namespace lowgear::server::perseus {

/// AllMaxFrequency, AllMaxPowerLimit: the highest power state for `num_iters` windows, then stops.
class AllMaxScheduler final : public Scheduler {
 public:
  AllMaxScheduler(Layout layout, int windows) : layout_(std::move(layout)), left_(windows) {}
  [[nodiscard]] Step schedule() const override;
  void end_window(std::span<const Window> window) override;

 private:
  Layout layout_;
  int left_;
};

/// One clock for forwards and one for backwards, for ever.
class TwoFrequenciesScheduler final : public Scheduler {
 public:
  /// Throws InputError when the job does not have one of the clocks.
  TwoFrequenciesScheduler(const Layout& layout, const Arguments& arguments);
  [[nodiscard]] Step schedule() const override { return schedule_; }
  void end_window(std::span<const Window> /*window*/) override {}

 private:
  Schedule schedule_;
};

/// Runs plans one after the other, a window each, after windows of warm-up; then stops. A job of Zeus' client asks
/// only once, so it gets the first plan, and keeps it.
class PointSolutionScheduler final : public Scheduler {
 public:
  /// `layout` has a position for every stage. Throws InputError unless every plan has a clock for every
  /// computation, and the GPUs have it.
  PointSolutionScheduler(const Layout& layout, const Settings& settings);
  [[nodiscard]] Step schedule() const override;
  void end_window(std::span<const Window> window) override;

 private:
  Layout layout_;
  std::shared_ptr<const std::vector<formats::PerseusPlan>> plans_;
  int warmup_windows_;
  std::size_t next_ = 0;  ///< plan of the present window, after the warm-up
  bool is_zeus_;
};

/// The instructions of a position with the clocks of its stage: entry i is for the i-th computation; an op that is none
/// runs at the clock of the computation before it, or of the first. Throws InputError naming the stage when the numbers
/// or kinds differ.
[[nodiscard]] std::vector<int> expand_clocks(const RankInfo& position,
                                             std::span<const formats::PerseusPlan::Entry> entries);

}  // namespace lowgear::server::perseus

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/core/progress.h"
#include "planning/schedule/schedule.h"
#include "server/perseus/profiler.h"
#include "server/perseus/scheduler.h"

namespace lowgear::server::perseus {

/// Lowgear's own way of serving such jobs: profiles a few clocks, a window each, predicts the others, plans, and serves
/// the plan for as long as the job trains. Nothing stops.
class LowgearScheduler final : public Scheduler {
 public:
  /// `layout` has a position for every rank. `progress`, of planning, may be null. Throws InputError when the ranks'
  /// instructions are no pipeline schedule, or there are too few clocks.
  LowgearScheduler(const Layout& layout, const Arguments& arguments, std::shared_ptr<Progress> progress = nullptr);
  [[nodiscard]] Step schedule() const override;
  [[nodiscard]] bool observes() const override { return warmup_windows_ == 0 && !plan_; }
  /// Plans when the last clock has run.
  void end_window(std::span<const Window> window) override;
  [[nodiscard]] std::vector<std::string> take_doubts() override { return std::exchange(doubts_, {}); }
  /// The profile so far and, once there is one, the plan in the artifact's form.
  [[nodiscard]] std::vector<File> files() const override;

 private:
  void make_plan();

  Layout layout_;
  Arguments arguments_;
  std::shared_ptr<Progress> progress_;
  schedule::Schedule pipeline_;
  int warmup_windows_;
  std::vector<int> clocks_mhz_;  ///< that are profiled; highest first
  std::size_t next_ = 0;
  Profile profile_;
  std::optional<Schedule> plan_;
  std::vector<File> plan_files_;
  std::vector<std::string> doubts_;  ///< about the profile, until they are taken
};

/// The pipeline schedule that the ranks' forwards and backwards make: the m-th of a kind is for microbatch m, as in
/// GPipe and 1F1B. Throws InputError when that is no schedule, such as where forwards are computed anew for backwards.
[[nodiscard]] schedule::Schedule pipeline_of(const Layout& layout);

}  // namespace lowgear::server::perseus

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/core/progress.h"

namespace lowgear::cli {

/// One line that shows how far work has come: `solving the frontier  [#####.....]  52 %`, at most `width` characters.
/// Without a bar when `fraction` is negative.
[[nodiscard]] std::string progress_line(std::string_view activity, double fraction, int width);

/// Draws progress on standard error while that is a terminal, a few times a second from the third second on, and
/// removes it at the end. `update` throws Interrupted after a signal.
class ProgressBar final : public Progress {
 public:
  ProgressBar();
  ~ProgressBar() override;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::string_view activity, double fraction) override;

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  bool drawn_ = false;
  Clock::time_point next_;
};

/// A TaskRunner that starts threads.
void run_parallel(std::size_t count, std::size_t threads, std::string_view activity, Progress& progress,
                  const std::function<void(const ParallelTask&)>& work);

/// A TaskStarter that starts a thread.
[[nodiscard]] std::unique_ptr<StartedTask> start_task(std::function<void(Progress& progress)> work);

/// Measures wall-clock time from its construction on.
class Stopwatch {
 public:
  [[nodiscard]] double elapsed_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// A wall clock for pure code, which has no clock.
[[nodiscard]] inline SecondsClock wall_clock() {
  return [watch = Stopwatch()] { return watch.elapsed_s(); };
}

}  // namespace lowgear::cli

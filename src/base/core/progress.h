#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "base/core/error.h"

namespace lowgear {

/// Receives the progress of long work. Pure code gets it as an argument; the command line draws it on a terminal.
class Progress {
 public:
  virtual ~Progress() = default;
  /// `fraction` in [0, 1], or negative when not known. Called often: implementations limit their own output.
  virtual void update(std::string_view activity, double fraction) = 0;
};

/// One of several tasks that do not depend on each other.
struct ParallelTask {
  std::size_t index;
  std::size_t thread;  ///< index of the thread that runs it, for data of each thread
  Progress& progress;  ///< to call often; throws when the work is stopped
};

/// Runs `work` once for each index below `count`, in no certain order, on at most `threads` (at least 1) threads.
/// Reports the number of finished tasks to `progress` as `activity`, from the calling thread. Throws the first
/// exception of a task, or that of `progress`, after all threads have ended. Pure code, which starts no threads, gets a
/// runner as an argument.
using TaskRunner = std::function<void(std::size_t count, std::size_t threads, std::string_view activity,
                                      Progress& progress, const std::function<void(const ParallelTask&)>& work)>;

/// Work on another thread. The destructor stops the work at its next report of progress, and waits for it.
class StartedTask {
 public:
  virtual ~StartedTask() = default;
  /// Waits for the end of the work, and reports `activity` to `progress` meanwhile. Throws the exception of the work or
  /// of `progress`. Call this once.
  virtual void finish(std::string_view activity, Progress& progress) = 0;
};

/// Starts `work` on a thread of its own, which ends before the returned task does. Pure code, which starts no threads,
/// gets a starter as an argument.
using TaskStarter = std::function<std::unique_ptr<StartedTask>(std::function<void(Progress& progress)> work)>;

/// A monotonic clock, in seconds from an arbitrary start. Pure code, which has no clock, gets one as an argument if its
/// result includes computation times; with an empty one such figures are left out.
using SecondsClock = std::function<double()>;

/// Long work was stopped on request; it has no result.
class Stopped final : public Error {
 public:
  Stopped() : Error("stopped on request") {}
};

/// Stops the work that reports to it: its next report throws `Stopped`. Thread-safe.
class StopSwitch final : public Progress {
 public:
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }
  void update(std::string_view /*activity*/, double /*fraction*/) override {
    if (is_stopped()) throw Stopped();
  }

 private:
  std::atomic<bool> stopped_{false};
};

}  // namespace lowgear

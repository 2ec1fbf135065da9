#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace lowgear::agent {

/// A thread that calls the driver, from where it may never return: its end is waited for, but not for ever. A thread
/// that is abandoned still uses what its function holds, which must therefore own all of it.
class DriverThread {
 public:
  using Clock = std::chrono::steady_clock;
  /// How long the end of a thread is waited for once it has been asked to end.
  static constexpr std::chrono::seconds kPatience{1};

  explicit DriverThread(std::function<void()> run);
  /// Whoever owns this has asked `run` to end. Waits for that `kPatience` at most.
  ~DriverThread();
  DriverThread(const DriverThread&) = delete;
  DriverThread& operator=(const DriverThread&) = delete;
  DriverThread(DriverThread&&) = default;
  DriverThread& operator=(DriverThread&&) = delete;

  /// Joins the thread if it ends until then, and leaves it to itself otherwise. For several threads that share one
  /// time to end.
  void end_until(Clock::time_point deadline);

 private:
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace lowgear::agent

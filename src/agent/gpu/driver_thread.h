#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace lowgear::agent {

/// A thread that calls the driver, which may never return: the wait for its end is bounded. An abandoned thread still
/// uses what its function holds, so the function must own all of it, and the driver's library and all others, so a
/// program with such threads returns from `main` by `end_process`.
class DriverThread {
 public:
  using Clock = std::chrono::steady_clock;
  /// How long the end of a thread is waited for once it has been asked to end.
  static constexpr std::chrono::seconds kPatience{1};

  explicit DriverThread(std::function<void()> run);
  /// The owner must have asked `run` to end. Waits at most `kPatience` for that.
  ~DriverThread();
  DriverThread(const DriverThread&) = delete;
  DriverThread& operator=(const DriverThread&) = delete;
  DriverThread(DriverThread&&) = default;
  DriverThread& operator=(DriverThread&&) = delete;

  /// Joins the thread if it ends by then, and detaches it otherwise. For several threads that share one deadline.
  void end_until(Clock::time_point deadline);

 private:
  std::future<void> ended_;
  std::thread thread_;
};

/// Ends the program as a return from `main` does. Once a DriverThread was abandoned, it does so without destroying what
/// is static: objects of the libraries, the driver's among them, that the thread may be using or use when the driver
/// returns.
[[noreturn]] void end_process(int code);

}  // namespace lowgear::agent

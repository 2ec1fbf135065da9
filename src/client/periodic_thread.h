#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace lowgear::client {

/// Calls a function on a thread of its own, with a pause before each call, until it is ended.
class PeriodicThread {
 public:
  PeriodicThread(std::chrono::milliseconds period, std::function<void()> work)
      : thread_([this, period, work = std::move(work)](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            pause(stop, period);
            work();
          }
        }) {}
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;
  ~PeriodicThread() { end(); }

  /// Ends the pause, and waits for one last call.
  void end() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void pause(const std::stop_token& stop, std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, time, [] { return false; });
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  ///< last: it uses everything above
};

}  // namespace lowgear::client

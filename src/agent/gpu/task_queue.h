#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>

namespace lowgear::agent {

/// Tasks for one thread, which runs them in order between other things that it does: whether there is one costs it an
/// atomic load.
class TaskQueue {
 public:
  using Task = std::packaged_task<void()>;

  // By any thread.
  /// What the task throws comes out of the future.
  std::future<void> post(std::function<void()> task);
  /// The thread is to end after the task that it is at; no further task runs.
  void stop();

  // By the thread.
  /// The next task; empty when none waits, or the thread is to end.
  [[nodiscard]] std::optional<Task> next();
  [[nodiscard]] bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  /// Waits until `next` or `stopped` has changed.
  void wait();
  /// The same for a time; false when nothing has changed.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time);

 private:
  void call();
  [[nodiscard]] bool called() const { return called_.load(std::memory_order_acquire); }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;           // under mutex_
  std::atomic<bool> called_{false};  // changes under mutex_
  std::atomic<bool> stopped_{false};
};

}  // namespace lowgear::agent

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lowgear::server {

/// Does long work outside of the server's thread, one piece after the other.
class WorkThread {
 public:
  /// `post` runs a function on the server's thread; it is called from the thread.
  explicit WorkThread(std::function<void(std::function<void()>)> post);
  /// Waits for the present piece; drops waiting ones.
  ~WorkThread() = default;
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  /// Calls `work`, which must not throw, and then `done` on the server's thread.
  void run(std::function<void()> work, std::function<void()> done);

 private:
  struct Piece {
    std::function<void()> work;
    std::function<void()> done;
  };
  void work_until(const std::stop_token& stop);

  std::function<void(std::function<void()>)> post_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Piece> waiting_;
  std::jthread thread_;  ///< last: it uses everything above
};

}  // namespace lowgear::server

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace lowgear::server {

/// Stands for the server's thread: runs what was posted to it on the test's thread.
class TestLoop {
 public:
  [[nodiscard]] std::function<void(std::function<void()>)> post();
  /// Runs what comes until the condition holds; false when it does not within two minutes.
  [[nodiscard]] bool run_until(const std::function<bool()>& condition);

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<std::function<void()>> functions_;
};

}  // namespace lowgear::server

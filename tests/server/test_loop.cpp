#include "server/test_loop.h"

#include <chrono>
#include <utility>

#include "base/core/eventually.h"

namespace lowgear::server {

std::function<void(std::function<void()>)> TestLoop::post() {
  return [this](std::function<void()> function) {
    const std::scoped_lock lock(mutex_);
    functions_.push_back(std::move(function));
    posted_.notify_one();
  };
}

bool TestLoop::run_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    std::vector<std::function<void()>> functions;
    {
      std::unique_lock lock(mutex_);
      if (!posted_.wait_until(lock, deadline, [this] { return !functions_.empty(); })) return false;
      functions = std::exchange(functions_, {});
    }
    for (const auto& function : functions) function();
  }
  return true;
}

}  // namespace lowgear::server

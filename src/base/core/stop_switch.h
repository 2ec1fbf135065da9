#pragma once

#include <atomic>
#include <string_view>

#include "base/core/error.h"
#include "base/core/progress.h"

namespace lowgear {

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

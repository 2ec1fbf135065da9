#pragma once

#include <chrono>

#include "base/core/progress.h"

namespace lowgear {

/// Wall clock since it was made.
class Stopwatch {
 public:
  [[nodiscard]] double elapsed_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Wall clock, for code that has none of its own.
[[nodiscard]] inline SecondsClock wall_clock() {
  return [watch = Stopwatch()] { return watch.elapsed_s(); };
}

}  // namespace lowgear

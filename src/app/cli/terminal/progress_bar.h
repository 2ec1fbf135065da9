#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/core/progress.h"

namespace lowgear::cli {

/// One line that shows how far work has come: `solving the frontier  [#####.....]  52 %`, at most `width` characters.
/// Without a bar when `fraction` is negative.
[[nodiscard]] std::string progress_line(std::string_view activity, double fraction, int width);

/// Draws progress on standard error while that is a terminal, from two seconds after it was made, a few times a second,
/// and removes it at the end. Also where a signal stops the work: `update` throws Interrupted.
class ProgressBar final : public Progress {
 public:
  ProgressBar();
  ~ProgressBar() override;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::string_view activity, double fraction) override;

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  bool drawn_ = false;
  Clock::time_point next_;
};

}  // namespace lowgear::cli

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/core/progress.h"

namespace lowgear::planner {

/// Reports of long work that is made of many short parts: each part says how much it did, and every few milliseconds of
/// work the last report is repeated, so that a stop is noticed soon and reports cost nothing. Not safe from several
/// threads. Calls throw what the Progress throws.
class WorkReport {
 public:
  /// `progress` may be null; else it must outlive this.
  explicit WorkReport(Progress* progress) : progress_(progress) {}

  /// Starts an activity, with the fraction of the work that is done, as in `Progress::update`. Reports at once.
  void begin(std::string_view activity, double fraction) {
    activity_ = activity;
    fraction_ = fraction;
    report();
  }

  /// Ops that the work at hand has visited since the last call.
  void visited(std::size_t ops) {
    visits_ += ops;
    if (visits_ >= kVisitsPerReport) report();
  }

 private:
  /// A visit takes some 5 ns, and ten times that where a large pipeline does not fit the cache.
  static constexpr std::size_t kVisitsPerReport = 100'000;

  void report() {
    visits_ = 0;
    if (progress_ != nullptr) progress_->update(activity_, fraction_);
  }

  Progress* progress_;
  std::string activity_ = "planning";
  double fraction_ = -1;
  std::size_t visits_ = 0;
};

}  // namespace lowgear::planner

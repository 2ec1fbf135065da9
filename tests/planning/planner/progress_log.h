#pragma once

#include <string_view>
#include <vector>

#include "base/core/progress.h"

namespace lowgear::planner {

/// Remembers how far was reported.
class ProgressLog final : public Progress {
 public:
  void update(std::string_view, double fraction) override { fractions.push_back(fraction); }
  std::vector<double> fractions;
};

/// Stops the work with its report number `last`, counted from 1; 0 stops nothing.
class StopsAfter final : public Progress {
 public:
  explicit StopsAfter(int last) : last_(last) {}
  [[nodiscard]] int reports() const { return reports_; }
  void update(std::string_view /*activity*/, double /*fraction*/) override {
    if (++reports_ == last_) throw Stopped();
  }

 private:
  int last_;
  int reports_ = 0;
};

}  // namespace lowgear::planner

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

}  // namespace lowgear::planner

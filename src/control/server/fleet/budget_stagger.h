#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "control/server/job/job_record.h"
#include "planning/budget/stagger.h"

namespace lowgear::server {

/// A job's iteration as it is planned and takes at present: after the plan its GPUs wait, while gradients are reduced
/// and the optimizer steps, for as long as recent iterations took more. Empty: it follows no plan.
[[nodiscard]] std::optional<budget::JobCycle> present_cycle(const JobRecord& job);

/// A job of a budget, and the part of its power that the budget counts.
struct StaggeredJob {
  std::string id;
  budget::JobCycle cycle;
  friend bool operator==(const StaggeredJob&, const StaggeredJob&) = default;
};

/// How the power of a budget's jobs would swing if they began their iterations together, and with the best delays that
/// were found. *Planned* only: no rank is delayed.
class BudgetStagger {
 public:
  /// `most_pct`: the longest delay, in per cent of an iteration. Computes only where anything has changed.
  void follow(std::vector<StaggeredJob> jobs, double most_pct);
  /// The member `stagger` of a budget (docs/server-api.md).
  [[nodiscard]] Json to_json() const;

 private:
  std::vector<StaggeredJob> jobs_;
  double most_pct_ = 0;
  budget::Stagger stagger_;
};

}  // namespace lowgear::server

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/workflow/power/stagger.h"
#include "server/fleet/phase_keeping.h"
#include "server/fleet/staggered_job.h"

namespace lowgear::server {

/// How a budget staggers its jobs.
struct StaggerSettings {
  double most_pct = 0;   ///< longest delay against the others, in per cent of an iteration; 0: they are not staggered
  bool applies = false;  ///< jobs are delayed; otherwise it is only planned
  friend bool operator==(const StaggerSettings&, const StaggerSettings&) = default;
};

/// How the power of a budget's jobs would swing if they began their iterations together, and with the best delays that
/// were found: *planned*. Where the budget says so, jobs are also brought to these delays, and kept there.
class BudgetStagger {
 public:
  /// Plans only where anything has changed.
  void follow(const std::vector<StaggeredJob>& jobs, const StaggerSettings& settings, double now_s);
  /// What the first rank of a job's pipeline should wait.
  [[nodiscard]] std::optional<protocol::IterationDelays> delays(const std::string& job) const {
    return keeping_.delays(job);
  }
  /// The member `stagger` of a budget (docs/server-api.md).
  [[nodiscard]] Json to_json() const;

 private:
  std::vector<std::string> jobs_;
  std::vector<workflow::JobCycle> cycles_;
  StaggerSettings settings_;
  workflow::Stagger stagger_;
  PhaseKeeping keeping_;
};

}  // namespace lowgear::server

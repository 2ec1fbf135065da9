#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/job/baseline.h"
#include "server/store/store.h"

namespace lowgear::server {

/// Adds the iterations of a job to its usage: each once, in order, also over a restart of the server.
class UsageCount {
 public:
  /// The last iteration that the store has counted.
  void restore(std::int64_t last_iteration) { last_ = last_iteration; }
  /// Whether the store has counted an iteration: those after it whose reports it has are not counted yet.
  [[nodiscard]] bool is_restored() const { return last_ >= 0; }
  /// Adds the iteration to `usage` unless it is counted. `names`: of the job, with nothing counted. `baseline`: as it
  /// was measured before this iteration. `is_doubtful`: its energy says little
  /// of the job. `now_s`: when it ended.
  void add(const JobIteration& iteration, const usage::UsageRow& names, const std::optional<IterationMeans>& baseline,
           bool is_doubtful, double now_s, std::vector<StoredUsage>& usage);

 private:
  std::int64_t last_ = -1;
};

/// Adds to the last row if it is of the same job, hour and baseline, or else as another row.
void add_usage(std::vector<StoredUsage>& rows, const StoredUsage& added);

}  // namespace lowgear::server

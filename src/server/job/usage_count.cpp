#include "server/job/usage_count.h"

#include <algorithm>
#include <cmath>

namespace lowgear::server {

void UsageCount::add(const JobIteration& iteration, const usage::UsageRow& names,
                     const std::optional<IterationMeans>& baseline, bool is_doubtful, double now_s,
                     std::vector<StoredUsage>& usage) {
  if (iteration.iteration <= last_) return;
  last_ = iteration.iteration;
  StoredUsage added{.row = names, .last_iteration = iteration.iteration};
  usage::UsageRow& row = added.row;
  row.hour_s = static_cast<std::int64_t>(std::max(0.0, now_s)) / usage::kHourS * usage::kHourS;
  row.iterations = 1;
  row.time_s = iteration.time_s;
  if (iteration.energy_j) {
    row.measured_iterations = 1;
    row.energy_j = *iteration.energy_j;
    row.energy_error_j = iteration.energy_error_j;
    if (is_doubtful) row.doubtful_energy_j = row.energy_j;
  }
  if (baseline && baseline->energy_j && *baseline->energy_j > 0) {
    row.baseline_time_s = baseline->time_s;
    row.baseline_energy_j = *baseline->energy_j;
    row.baseline_error_j = baseline->energy_error_j;
  }
  add_usage(usage, added);
}

void add_usage(std::vector<StoredUsage>& rows, const StoredUsage& added) {
  const usage::UsageRow& more = added.row;
  const bool is_same = !rows.empty() && !rows.back().takes_savings_back && !added.takes_savings_back &&
                       rows.back().row.job == more.job && rows.back().row.hour_s == more.hour_s &&
                       rows.back().row.baseline_energy_j == more.baseline_energy_j;
  if (!is_same) return rows.push_back(added);
  StoredUsage& last = rows.back();
  last.last_iteration = std::max(last.last_iteration, added.last_iteration);
  last.row.iterations += more.iterations;
  last.row.measured_iterations += more.measured_iterations;
  last.row.time_s += more.time_s;
  last.row.energy_j += more.energy_j;
  last.row.doubtful_energy_j += more.doubtful_energy_j;
  last.row.energy_error_j = std::hypot(last.row.energy_error_j, more.energy_error_j);
}

}  // namespace lowgear::server

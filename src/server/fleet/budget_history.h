#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "server/job/server_metrics.h"
#include "server/store/store.h"

namespace lowgear::server {

/// What is kept of power budgets over time: a row of each once a minute, and at once when its limit changes or it is
/// not kept any more, or again. Of more than 100 budgets rows are as much rarer, so that these are at most 100 a
/// minute.
class BudgetHistory {
 public:
  /// Rows that are due of these budgets, which are all. `now_s`: seconds since 1970.
  [[nodiscard]] std::vector<StoredBudgetUse> due(std::span<const BudgetSnapshot> budgets, double now_s);

 private:
  struct Last {
    double time_s = 0;
    double limit_w = 0;
    bool kept = true;
  };
  std::map<std::string, Last> last_;  ///< by name
};

}  // namespace lowgear::server

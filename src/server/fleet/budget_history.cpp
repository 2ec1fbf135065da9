#include "server/fleet/budget_history.h"

#include <algorithm>
#include <cmath>

namespace lowgear::server {
namespace {

constexpr double kPeriodS = 60;
constexpr double kMostRowsAPeriod = 100;

StoredBudgetUse row_of(const BudgetSnapshot& budget, double now_s) {
  StoredBudgetUse row{.time_s = static_cast<std::int64_t>(std::floor(now_s)),
                      .budget = budget.name,
                      .limit_w = budget.watts,
                      .planned_w = budget.planned_w,
                      .assumed_w = budget.assumed_w,
                      .measured_w = budget.measured_w,
                      .measured_gpus = std::llround(budget.measured_gpus),
                      .held_w = std::nullopt,
                      .kept = budget.kept()};
  if (budget.held) row.held_w = budget.held->watts;
  return row;
}

}  // namespace

std::vector<StoredBudgetUse> BudgetHistory::due(std::span<const BudgetSnapshot> budgets, double now_s) {
  const double period_s = kPeriodS * std::max(1.0, static_cast<double>(budgets.size()) / kMostRowsAPeriod);
  std::map<std::string, Last> known = std::exchange(last_, {});
  std::vector<StoredBudgetUse> rows;
  for (const BudgetSnapshot& budget : budgets) {
    const auto before = known.find(budget.name);
    const bool is_due = before == known.end() || now_s - before->second.time_s >= period_s ||
                        before->second.limit_w != budget.watts || before->second.kept != budget.kept();
    if (is_due) rows.push_back(row_of(budget, now_s));
    last_[budget.name] = is_due ? Last{now_s, budget.watts, budget.kept()} : before->second;
  }
  return rows;
}

}  // namespace lowgear::server

#include "server/fleet/budget_history.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lowgear::server {
namespace {

std::vector<BudgetSnapshot> budgets(double watts, double planned_w) {
  std::vector<BudgetSnapshot> all(1);
  all[0].name = "row-1";
  all[0].watts = watts;
  all[0].planned_w = planned_w;
  return all;
}

TEST(BudgetHistory, HasARowAMinuteAndOneForEachChange) {
  BudgetHistory history;
  EXPECT_EQ(history.due(budgets(100, 90), 1000.5).size(), 1U);
  EXPECT_EQ(history.due(budgets(100, 95), 1059).size(), 0U);
  EXPECT_EQ(history.due(budgets(100, 95), 1060.5).size(), 1U);
  EXPECT_EQ(history.due(budgets(80, 80), 1061).size(), 1U);
  EXPECT_EQ(history.due(budgets(80, 81), 1062).size(), 1U);
  EXPECT_EQ(history.due(budgets(80, 82), 1063).size(), 0U);
  EXPECT_EQ(history.due({}, 1064).size(), 0U);
  EXPECT_EQ(history.due(budgets(80, 82), 1065).size(), 1U);  // there was none meanwhile
}

TEST(BudgetHistory, ARowIsWhatIsKnown) {
  std::vector<BudgetSnapshot> all = budgets(100, 110);
  all[0].assumed_w = 7;
  all[0].measured_w = 60;
  all[0].measured_gpus = 3.0000001;
  all[0].held = BudgetSnapshot::Held{.watts = 120, .nodes = 2, .silent_nodes = 1};
  const StoredBudgetUse row = BudgetHistory().due(all, 1000.9).at(0);
  EXPECT_EQ(row.time_s, 1000);
  EXPECT_EQ(row.budget, "row-1");
  EXPECT_EQ(row.limit_w, 100);
  EXPECT_EQ(row.planned_w, 110);
  EXPECT_EQ(row.assumed_w, 7);
  EXPECT_EQ(row.measured_w, 60);
  EXPECT_EQ(row.measured_gpus, 3);
  EXPECT_EQ(row.held_w, 120);
  EXPECT_FALSE(row.kept);
}

TEST(BudgetHistory, ManyBudgetsAreWrittenLessOften) {
  std::vector<BudgetSnapshot> all(300);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = std::to_string(i);
    all[i].watts = 100;
  }
  BudgetHistory history;
  EXPECT_EQ(history.due(all, 0).size(), 300U);
  EXPECT_EQ(history.due(all, 179).size(), 0U);
  EXPECT_EQ(history.due(all, 180).size(), 300U);
}

}  // namespace
}  // namespace lowgear::server

#include "planning/workflow/plan_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::workflow {
namespace {

using ::testing::HasSubstr;

TEST(FrontierTable, KeepsEveryDigit) {
  const std::vector<simulator::PipelineFigures> points{{2.836510765077, 6160.417282038884}, {1.0 / 3, 1e-7}};
  const std::string text = write_frontier_table(points);
  EXPECT_EQ(text, "time_s,energy_j\n2.836510765077,6160.417282038884\n0.3333333333333333,1e-07\n");
  const auto read = read_frontier_table(text, "frontier.csv");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[1].time_s, 1.0 / 3);
  EXPECT_EQ(read[0].energy_j, 6160.417282038884);
}

TEST(PlansTable, LeavesOutWhatIsNotKnown) {
  const std::vector<PlanFigures> plans{{0, 2, 1.5, 110, 100, 7}, {1, 3, 2.5, 90, std::nullopt, 0}};
  const std::string text = write_plans_table(plans);
  EXPECT_EQ(text,
            "plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches\n"
            "0,2,1.5,110,100,10,7\n"
            "1,3,2.5,90,,,0\n");
  const auto read = read_plans_table(text, "plans.csv");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].lower_bound_j, 100);
  EXPECT_EQ(read[1].lower_bound_j, std::nullopt);
  EXPECT_EQ(read[0].switches, 7);
}

TEST(PlansTable, SaysWhereItIsWrong) {
  const std::string header = "plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches\n";
  const auto error = [&](const std::string& row) {
    return error_of([&] { (void)read_plans_table(header + row, "plans.csv"); });
  };
  EXPECT_THAT(error(""), HasSubstr("plans.csv: has no rows"));
  EXPECT_THAT(error("-1,2,1,1,1,0,0\n"), HasSubstr("plans.csv:2:1"));
  EXPECT_THAT(error("0,2,1,1,1,0,99999999999\n"), HasSubstr("out of range"));
  EXPECT_THAT(error("0,2,soon,1,1,0,0\n"), HasSubstr("plans.csv:2:5"));
}

TEST(PlanToShow, IsTheSlowestThatIsNoSlowerThanTheBaseline) {
  const std::vector<PlanFigures> plans{{0, 1, 1.0, 9, {}, 0}, {1, 2, 2.0, 8, {}, 0}, {2, 3, 3.0, 7, {}, 0}};
  EXPECT_EQ(plan_to_show(plans, 2.5), 1);
  EXPECT_EQ(plan_to_show(plans, 3.0 - 1e-12), 2);
  EXPECT_EQ(plan_to_show(plans, 0.5), 0);
}

}  // namespace
}  // namespace lowgear::workflow

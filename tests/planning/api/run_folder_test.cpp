#include "planning/api/run_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/sample_pipeline.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::api {

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

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The texts of a folder with three plans.
planner::PlanFolder sample_texts() {
  planner::PlanFolder files;
  const PlanOptions options{.deadlines = {.plans = 3}};
  const PlanResult result =
      plan(sample_pipeline(), options, [&files](const ProfiledPipeline&, int number, const plan::Plan& made) {
        files.plans.push_back({fmt::format("{:05}.json", number), write_plan(made)});
      });
  files.run = {"run.json", write_run(run_file_of(result, options))};
  files.profile = {"profile.csv", profile::write_profile_file({.profile = result.pipeline.profile})};
  files.schedule = {"schedule.csv", write_torch_csv(result.pipeline.schedule)};
  files.frontier = {"frontier.csv", write_frontier_table(result.frontier.vertices)};
  files.plans_table = {"plans.csv", write_plans_table(result.plans)};
  files.certificate = {"certificate.txt", result.frontier.certificate};
  return files;
}

TEST(RunContents, AreWhatWasPlannedAndTheTextsPassVerification) {
  const planner::PlanFolder files = sample_texts();
  EXPECT_THAT(verify(files).failures, IsEmpty());
  const RunContents contents = read_run_contents(files, std::nullopt);
  EXPECT_EQ(contents.plans.size(), 3U);
  EXPECT_EQ(contents.chosen.time_s, contents.plans[static_cast<std::size_t>(contents.chosen_plan)].time_s);
  EXPECT_EQ(contents.schedule.name, sample_pipeline().schedule.name);
  EXPECT_TRUE(contents.lower_bound.empty());
  EXPECT_EQ(read_run_contents(files, planner::PlanFolder::File{"b.csv", "time_s,energy_j\n1,2\n"})
                .lower_bound.front()
                .energy_j,
            2);
}

TEST(RunContents, RefusesAScheduleOfAnotherRun) {
  planner::PlanFolder files = sample_texts();
  files.schedule.text = "0F0,0B0\n";
  EXPECT_THAT(error_of([&] { (void)read_run_contents(files, std::nullopt); }),
              HasSubstr("has 1 ranks, and run.json says 3"));
}

}  // namespace

}  // namespace lowgear::api

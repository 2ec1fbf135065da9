#include "planning/workflow/run_contents.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "planning/plan/plan_json.h"
#include "planning/schedule/torch_csv.h"
#include "planning/workflow/plan_pipeline.h"
#include "planning/workflow/sample_pipeline.h"

namespace lowgear::workflow {
namespace {

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
  files.profile = {"profile.csv", write_stage_profile(result.pipeline.profile)};
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
}  // namespace lowgear::workflow

#include "server/fleet/finished_job.h"

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "server/job/job_documents.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

class FinishedJobTest : public testing::Test {
 protected:
  void SetUp() override {
    training.train();
    training.run(30);
    training.job().finish("over", training.now_s());
    archive = archive_of(training.record());
    archive.spec = to_json(training.record().spec).dump();
    job = finished_job({.id = "j-1", .run = "run-1", .created_s = 1, .summary = archive.summary});
  }

  SimulatedJob training{small_job(2)};
  StoredArchive archive;
  FinishedJob job;
};

TEST_F(FinishedJobTest, ShowsWhatTheJobHasShown) {
  const JobRecord& live = training.record();
  EXPECT_EQ(job.state, "finished");
  const Json shown = Json::parse(show_finished_job(job, archive));
  EXPECT_EQ(shown["job"], summary_json(live));
  EXPECT_EQ(shown["spec"], to_json(live.spec));
  EXPECT_EQ(shown["ranks"], ranks_json(live));
  EXPECT_EQ(Json::parse(show_frontier(job, archive)), frontier_json(live));
  EXPECT_EQ(Json::parse(show_timeline(job, archive)), timeline_json(live));
  EXPECT_EQ(Json::parse(show_iterations(job, archive, -1, 5)), iterations_json(live, -1, 5));
  EXPECT_EQ(Json::parse(show_iterations(job, archive, 7, 1'000)), iterations_json(live, 7, 1'000));
}

TEST_F(FinishedJobTest, SaysThatFiguresAreInvalid) {
  Json summary = Json::parse(archive.summary);
  summary["problems"] = Json::array({{{"kind", "figures_invalid"}, {"text", "short kernels"}}});
  job = finished_job({.id = "j-1", .run = "run-1", .created_s = 1, .summary = summary.dump()});
  EXPECT_EQ(Json::parse(show_frontier(job, archive))["invalid"], "short kernels");
  EXPECT_EQ(Json::parse(show_iterations(job, archive, -1, 10))["invalid"], "short kernels");
}

TEST_F(FinishedJobTest, ShowsWhatHasExpiredAsEmpty) {
  archive.ranks.clear();
  archive.frontier.clear();
  archive.timeline.clear();
  archive.iterations.clear();
  EXPECT_TRUE(Json::parse(show_finished_job(job, archive))["ranks"].empty());
  EXPECT_TRUE(Json::parse(show_frontier(job, archive))["vertices"].empty());
  EXPECT_TRUE(Json::parse(show_timeline(job, archive))["plan"].is_null());
  EXPECT_TRUE(Json::parse(show_iterations(job, archive, -1, 10))["iterations"].empty());
}

TEST_F(FinishedJobTest, SaysThatAnArchiveIsDamaged) {
  archive.iterations.pop_back();
  EXPECT_THROW((void)show_iterations(job, archive, -1, 10), InputError);
  EXPECT_THROW((void)finished_job({.id = "j", .run = "r", .created_s = 1, .summary = "{}"}), InputError);
}

TEST(FinishedLargeJob, LeavesItsPlanOut) {
  protocol::JobSpec spec = small_job(1, 1, static_cast<int>(kArchivedUnits));
  Job job("j-1", spec, 1);
  job.finish("over", 2);
  const Json timeline = Json::parse(archive_of(job.record()).timeline);
  EXPECT_TRUE(timeline["plan"].is_null());
  EXPECT_EQ(timeline["job"], "j-1");
}

}  // namespace
}  // namespace lowgear::server

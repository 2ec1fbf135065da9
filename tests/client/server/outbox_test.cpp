#include "client/server/outbox.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

protocol::IterationReport report(std::int64_t iteration) {
  protocol::IterationReport report;
  report.iteration = iteration;
  return report;
}

protocol::GpuNow gpu_at(double power_w) {
  protocol::GpuNow gpu;
  gpu.power_w = power_w;
  return gpu;
}

ProfileResult profile(int plan_version) {
  ProfileResult result;
  result.plan_version = plan_version;
  return result;
}

TEST(Outbox, HoldsReportsUntilTheyAreHeard) {
  Outbox outbox;
  EXPECT_TRUE(outbox.empty());
  EXPECT_FALSE(outbox.next_reports(3));
  outbox.add(report(1), gpu_at(100));
  outbox.add(report(2), gpu_at(200));
  const std::optional<protocol::RankReports> body = outbox.next_reports(3);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->rank, 3);
  EXPECT_EQ(body->reports.size(), 2);
  EXPECT_EQ(body->gpu.power_w, 200) << "the newest";
  outbox.add(report(3), {});
  EXPECT_EQ(outbox.next_reports(3)->reports.size(), 3) << "nothing was heard";
  outbox.heard(*body, true);
  ASSERT_EQ(outbox.next_reports(3)->reports.size(), 1);
  EXPECT_EQ(outbox.next_reports(3)->reports[0].iteration, 3);
  EXPECT_EQ(outbox.lost(), 0);
}

TEST(Outbox, SaysNoMoreAtOnceThanARequestHolds) {
  Outbox outbox;
  const auto more = static_cast<std::int64_t>(protocol::kMaxReportsPerRequest) + 1;
  for (std::int64_t i = 0; i < more; ++i) outbox.add(report(i), {});
  const std::optional<protocol::RankReports> body = outbox.next_reports(0);
  EXPECT_EQ(body->reports.size(), protocol::kMaxReportsPerRequest);
  outbox.heard(*body, true);
  EXPECT_EQ(outbox.next_reports(0)->reports.size(), 1);
}

TEST(Outbox, CountsWhatTheServerNeverTakes) {
  Outbox outbox;
  outbox.add(report(1), {});
  outbox.heard(*outbox.next_reports(0), false);
  EXPECT_EQ(outbox.lost(), 1);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, DropsTheOldestReportsAndProfilesBeyondALimit) {
  Outbox outbox;
  const auto limit = static_cast<std::int64_t>(Outbox::kMaxReports);
  for (std::int64_t i = 0; i < limit + 2; ++i) outbox.add(report(i), {});
  EXPECT_EQ(outbox.lost(), 2);
  EXPECT_EQ(outbox.next_reports(0)->reports[0].iteration, 2);
  const auto profiles = static_cast<int>(Outbox::kMaxProfiles);
  for (int version = 1; version <= profiles + 1; ++version) outbox.add(profile(version));
  EXPECT_EQ(outbox.next_profile()->plan_version, 2);
}

TEST(Outbox, KeepsReportsThatCameWhileOlderOnesWereDropped) {
  Outbox outbox;
  outbox.add(report(1), {});
  const std::optional<protocol::RankReports> body = outbox.next_reports(0);
  for (std::int64_t i = 2; i < static_cast<std::int64_t>(Outbox::kMaxReports) + 2; ++i) outbox.add(report(i), {});
  outbox.heard(*body, true);
  EXPECT_EQ(outbox.next_reports(0)->reports[0].iteration, 2);
}

TEST(Outbox, SpeaksWithoutReportsOnceItIsToBeHeard) {
  Outbox outbox;
  outbox.hear(gpu_at(50));
  EXPECT_FALSE(outbox.empty());
  const std::optional<protocol::RankReports> body = outbox.next_reports(0);
  ASSERT_TRUE(body);
  EXPECT_TRUE(body->reports.empty());
  EXPECT_EQ(body->gpu.power_w, 50);
  EXPECT_FALSE(outbox.next_reports(0)) << "once";
  outbox.not_heard();
  EXPECT_TRUE(outbox.next_reports(0));
}

TEST(Outbox, SaysWhyNoPlanIsFollowedUnlessTheServerIsTooOld) {
  Outbox outbox;
  EXPECT_FALSE(outbox.set_refusal("")) << "that is so from the start";
  EXPECT_TRUE(outbox.set_refusal("the schedule differs"));
  EXPECT_FALSE(outbox.set_refusal("the schedule differs"));
  EXPECT_EQ(outbox.next_reports(0)->refusal, "the schedule differs");
  outbox.leave_out_refusals();
  outbox.add(report(1), {});
  EXPECT_EQ(outbox.next_reports(0)->refusal, "");
}

TEST(Outbox, HoldsAProfileUntilItIsHeard) {
  Outbox outbox;
  outbox.add(profile(4));
  outbox.add(profile(5));
  EXPECT_EQ(outbox.next_profile()->plan_version, 4);
  outbox.heard_profile(3);
  EXPECT_EQ(outbox.next_profile()->plan_version, 4) << "another one's";
  outbox.heard_profile(4);
  EXPECT_EQ(outbox.next_profile()->plan_version, 5);
  outbox.heard_profile(5);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, DropsWhatIsOfAJobThatIsGone) {
  Outbox outbox;
  outbox.add(report(1), {});
  outbox.add(profile(4));
  outbox.drop_job();
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(outbox.lost(), 1);
}

}  // namespace
}  // namespace lowgear::client

#include "client/server/outbox.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace lowgear::client {

namespace {

using namespace std::chrono_literals;
using Time = DecisionQueue::Clock::time_point;

protocol::TrainingDecision decision(const std::string& reason) {
  protocol::TrainingDecision decision;
  decision.reason = reason;
  return decision;
}

protocol::JobWork work(int frozen_layers) {
  return {.layers = 24, .frozen_layers = frozen_layers, .precision = "bf16"};
}

std::vector<std::int64_t> numbers(const std::optional<protocol::RankDecisions>& body) {
  std::vector<std::int64_t> numbers;
  for (const protocol::TrainingDecision& decision : body.value().decisions) numbers.push_back(decision.number);
  return numbers;
}

TEST(DecisionQueue, KeepsDecisionsUntilTheServerHasThem) {
  DecisionQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.next(0, Time()));
  queue.add(decision("first"), Time());
  queue.add(decision("second"), Time() + 2s);
  const auto body = queue.next(7, Time() + 5s);
  EXPECT_EQ(numbers(body), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(body->rank, 7);
  EXPECT_EQ(body->decisions[0].age_s, 5);
  EXPECT_EQ(body->decisions[1].age_s, 3);
  EXPECT_EQ(body->decisions[1].reason, "second");
  EXPECT_EQ(queue.waiting(), 2);
  queue.add(decision("third"), Time());
  queue.sent(*body, true);
  EXPECT_EQ(numbers(queue.next(7, Time())), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(queue.waiting(), 1);
  EXPECT_EQ(queue.lost(), 0);
}

TEST(DecisionQueue, SendsTheWorkOnlyWhenItHasChanged) {
  DecisionQueue queue;
  queue.set_work(work(0));
  const auto body = queue.next(0, Time());
  EXPECT_EQ(body->work, work(0));
  queue.sent(*body, true);
  queue.set_work(work(0));
  EXPECT_TRUE(queue.empty());
  queue.set_work(work(6));
  const auto changed = queue.next(0, Time());
  queue.set_work(work(7));
  queue.sent(*changed, true);
  EXPECT_EQ(queue.next(0, Time())->work, work(7)) << "what came after the request was made is not sent yet";
}

TEST(DecisionQueue, SendsNoMoreAtOnceThanARequestHolds) {
  DecisionQueue queue;
  for (std::size_t i = 0; i <= protocol::kMaxDecisionsPerRequest; ++i) queue.add(decision("x"), Time());
  const auto body = queue.next(0, Time());
  EXPECT_EQ(body->decisions.size(), protocol::kMaxDecisionsPerRequest);
  queue.sent(*body, true);
  EXPECT_EQ(queue.next(0, Time())->decisions.size(), 1);
}

TEST(DecisionQueue, CountsWhatTheServerNeverTakes) {
  DecisionQueue queue;
  queue.set_work(work(0));
  queue.add(decision("x"), Time());
  queue.add(decision("y"), Time());
  queue.sent(*queue.next(0, Time()), false);
  EXPECT_EQ(queue.lost(), 2);
  EXPECT_TRUE(queue.empty()) << "it is not asked again and again";
}

TEST(DecisionQueue, DropsTheOldestAndCountsThoseThatWereNotSent) {
  DecisionQueue queue;
  queue.add(decision("sent"), Time());
  queue.sent(*queue.next(0, Time()), true);
  for (std::size_t i = 0; i < DecisionQueue::kMaxDecisions + 1; ++i) queue.add(decision("x"), Time());
  EXPECT_EQ(queue.lost(), 1);
  EXPECT_EQ(queue.waiting(), DecisionQueue::kMaxDecisions);
  EXPECT_EQ(queue.next(0, Time())->decisions.front().number, 3);
}

TEST(DecisionQueue, SendsEverythingToTheNextJobOfTheRun) {
  DecisionQueue queue;
  queue.set_work(work(6));
  queue.add(decision("first"), Time());
  queue.sent(*queue.next(0, Time()), true);
  queue.add(decision("second"), Time());
  const auto of_the_old_job = queue.next(0, Time());
  queue.begin_job();
  queue.sent(*of_the_old_job, true);
  const auto body = queue.next(0, Time());
  EXPECT_EQ(numbers(body), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(body->work, work(6));
}

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

TEST(Outbox, SaysWhyNoPlanIsFollowed) {
  Outbox outbox;
  EXPECT_FALSE(outbox.set_refusal("")) << "that is so from the start";
  EXPECT_TRUE(outbox.set_refusal("the schedule differs"));
  EXPECT_FALSE(outbox.set_refusal("the schedule differs"));
  EXPECT_EQ(outbox.next_reports(0)->refusal, "the schedule differs");
  outbox.add(report(1), {});
  EXPECT_EQ(outbox.next_reports(0)->refusal, "the schedule differs") << "with every report";
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

#include "server/job/iteration_begins.h"

#include <gtest/gtest.h>

namespace lowgear::server {

namespace {

TEST(ClockDifference, IsThatOfTheFastestRequest) {
  ClockDifference clock;
  EXPECT_EQ(clock.behind_s(), 0);
  clock.add(100, 103.5);
  clock.add(101, 104.01);  // the others were held up
  clock.add(102, 109);
  EXPECT_NEAR(clock.behind_s(), 3.01, 1e-9);
}

TEST(ClockDifference, FollowsAClockThatIsSet) {
  ClockDifference clock;
  clock.add(100, 100.01);
  clock.add(111, 101.01);  // set forward by 10 s
  EXPECT_NEAR(clock.behind_s(), -9.99, 1e-9);
  for (std::size_t i = 0; i < ClockDifference::kMost; ++i) clock.add(200, 205.01);  // and back by 15 s
  EXPECT_NEAR(clock.behind_s(), 5.01, 1e-9);
}

protocol::IterationReport begun(std::int64_t iteration, double begin_s, double delay_s = 0, int plan_version = 3) {
  protocol::IterationReport report{
      .iteration = iteration, .plan_version = plan_version, .time_s = 1, .energy_j = {}, .begin_s = begin_s};
  report.delay_s = delay_s;
  return report;
}

/// What a rank sends of one iteration, which comes at once.
void add(IterationBegins& begins, const protocol::IterationReport& report) {
  begins.add({.rank = 0, .reports = {report}, .gpu = {}}, 0);
}

TEST(IterationBegins, TellThePaceWithoutDelays) {
  IterationBegins begins;
  double begin_s = 1.7e9;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(begins.pace(3).has_value(), i >= 5) << "after five in a row";
    const double delay_s = i % 2 == 0 ? 0.25 : 0;
    begin_s += 0.5 + delay_s;
    add(begins, begun(i, begin_s, delay_s));
  }
  EXPECT_EQ(begins.pace(3)->iteration, 7);
  EXPECT_EQ(begins.pace(3)->begin_s, begin_s);
  EXPECT_NEAR(begins.pace(3)->time_s, 0.5, 1e-6);  // begins are large numbers
  EXPECT_FALSE(begins.pace(4)) << "of another plan";
}

TEST(IterationBegins, AreByTheServersClockWhateverTheRanksIs) {
  IterationBegins begins;
  constexpr double kBehindS = 7.3;
  for (int i = 0; i < 9; ++i) {
    const double request_s = i == 4 ? 0.002 : 0.4;
    begins.add({.rank = 0, .reports = {begun(i, 100 + i)}, .gpu = {}, .sent_s = 101.5 + i},
               101.5 + i + kBehindS + request_s);
  }
  ASSERT_TRUE(begins.pace(3));
  EXPECT_NEAR(begins.pace(3)->begin_s, 108 + kBehindS, 0.003);
  EXPECT_NEAR(begins.pace(3)->time_s, 1, 1e-9);
}

TEST(IterationBegins, SayWhetherTheProgramLetsIterationsBeDelayed) {
  IterationBegins begins;
  for (int i = 0; i < 6; ++i) {
    protocol::IterationReport report = begun(i, 100 + i);
    report.cannot_wait = i < 5;
    add(begins, report);
    if (i == 4) {
      EXPECT_TRUE(begins.pace(3)->cannot_wait);
    }
  }
  EXPECT_FALSE(begins.pace(3)->cannot_wait);
}

TEST(IterationBegins, AreNotMisledByAStall) {
  IterationBegins begins;
  for (int i = 0; i < 9; ++i) add(begins, begun(i, 100 + i + (i > 4 ? 30 : 0)));
  EXPECT_NEAR(begins.pace(3)->time_s, 1, 1e-9);
}

TEST(IterationBegins, BeginAnewAfterAGapAnotherPlanAndAClockThatWasSetBack) {
  IterationBegins begins;
  const auto fill = [&](std::int64_t from, double begin_s, int plan_version) {
    for (int i = 0; i < 6; ++i) add(begins, begun(from + i, begin_s + i, 0, plan_version));
  };
  fill(0, 100, 3);
  ASSERT_TRUE(begins.pace(3));
  add(begins, begun(8, 108));
  EXPECT_FALSE(begins.pace(3)) << "iteration 6 and 7 are missing";
  fill(20, 120, 3);
  add(begins, begun(26, 126, 0, 4));
  EXPECT_FALSE(begins.pace(3));
  EXPECT_FALSE(begins.pace(4));
  fill(40, 140, 4);
  add(begins, begun(46, 5, 0, 4));
  EXPECT_FALSE(begins.pace(4));
  fill(60, 160, 4);
  protocol::IterationReport silent = begun(66, 0, 0, 4);
  silent.begin_s.reset();
  add(begins, silent);
  EXPECT_FALSE(begins.pace(4)) << "the rank says no begins any more";
}

}  // namespace

}  // namespace lowgear::server

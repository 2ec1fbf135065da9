#include "server/job/iteration_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "base/core/error_of.h"

namespace lowgear::server {

namespace {

using testing::HasSubstr;

TEST(SwitchBoundary, IsTheSecondNextWhenEverybodyIsToldAtOnce) {
  EXPECT_EQ(switch_boundary({41, 0, 1}, 0), 43);
  EXPECT_EQ(switch_boundary({41, 0, 1}, 0.99), 43);
  EXPECT_EQ(switch_boundary({-1, 0, 1}, 0), 1) << "iteration 0 has begun";
}

TEST(SwitchBoundary, LeavesTimeForDelivery) {
  EXPECT_EQ(switch_boundary({41, 0, 1}, 1), 44);
  EXPECT_EQ(switch_boundary({41, 0, 0.01}, 0.05), 48);
  EXPECT_EQ(switch_boundary({41, 0.6, 1}, 0.5), 44) << "what happened is some time ago";
}

/// Against a job that runs as fast as it may: no rank has begun the boundary when all are told, and one earlier would
/// have been too early.
TEST(SwitchBoundary, IsTheFirstThatNobodyHasBegun) {
  for (const double since_s : {0.0, 0.125, 0.5, 1.75, 3.0}) {
    for (const double budget_s : {0.0, 0.25, 0.375, 1.0, 2.5}) {
      const double iteration_s = 0.5;
      int running = 11;
      for (double end_s = iteration_s; end_s <= since_s + budget_s; end_s += iteration_s) ++running;
      EXPECT_EQ(switch_boundary({10, since_s, iteration_s}, budget_s), running + 1) << since_s << " " << budget_s;
    }
  }
}

TEST(SwitchBoundary, RefusesWhatMakesNoSense) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, 0, 0}, 0); }), HasSubstr("above 0"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, 0, kNan}, 0); }), HasSubstr("above 0"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, -1, 1}, 0); }), HasSubstr("0 or more"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, 0, 1}, kNan); }), HasSubstr("0 or more"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({-2, 0, 1}, 0); }), HasSubstr("-1 or more"));
  EXPECT_THAT(error_of([] { (void)switch_boundary({0, 0, 1e-9}, 1e6); }), HasSubstr("too far ahead"));
  EXPECT_THAT(error_of([] {
                (void)switch_boundary({std::numeric_limits<std::int64_t>::max(), 0, 1}, 0);
              }),
              HasSubstr("too far ahead"));
}

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

JobIteration iteration(std::int64_t number, double time_s, int plan_version = 1) {
  JobIteration iteration;
  iteration.iteration = number;
  iteration.plan_version = plan_version;
  iteration.time_s = time_s;
  return iteration;
}

protocol::RankReports report(int rank, std::int64_t number) {
  protocol::RankReports reports;
  reports.rank = rank;
  reports.reports.push_back({.iteration = number, .plan_version = 1, .time_s = 1, .compute_s = 1, .energy_j = {}});
  return reports;
}

TEST(IterationHistory, KeepsIterationsWithoutReportsAndTheLastOnesOnly) {
  IterationHistory history(1);
  for (std::size_t i = 0; i <= IterationHistory::kKept; ++i) {
    JobIteration next = iteration(static_cast<std::int64_t>(i), 1);
    next.reports.resize(1);
    history.keep(next, 0);
  }
  ASSERT_EQ(history.kept().size(), IterationHistory::kKept);
  EXPECT_EQ(history.kept().front().iteration, 1);
  EXPECT_TRUE(history.kept().back().reports.empty());
}

TEST(IterationHistory, CountsRanksThatDoNotFollowTheDuePlan) {
  IterationHistory history(4);
  JobIteration next = iteration(0, 1);
  next.reports.resize(4);
  for (const auto& [rank, version] : {std::pair{0, 3}, std::pair{1, 2}, std::pair{3, 0}}) {
    next.reports[static_cast<std::size_t>(rank)] = protocol::IterationReport{.plan_version = version, .energy_j = {}};
  }
  history.keep(next, 3);  // rank 2 has not reported
  EXPECT_EQ(history.not_following().ranks, 2);
  EXPECT_EQ(history.not_following().first_rank, 1);
  history.keep(next, 0);
  EXPECT_EQ(history.not_following().ranks, 0);
}

TEST(IterationHistory, KnowsTheLastIterationsOfThePresentPlanOnly) {
  IterationHistory history(1);
  history.keep(iteration(0, 100, 1), 0);
  for (int i = 1; i <= 2; ++i) history.keep(iteration(i, i, 2), 0);
  EXPECT_THAT(history.recent(2), ElementsAre(Field(&JobIteration::iteration, 2), Field(&JobIteration::iteration, 1)));
  EXPECT_THAT(history.recent(1), IsEmpty());
  for (int i = 3; i < 100; ++i) history.keep(iteration(i, i, 2), 0);
  EXPECT_EQ(history.recent(2).size(), IterationHistory::kRecent);
}

TEST(IterationHistory, PutsBoundariesWhereAllRanksCanReachThem) {
  IterationHistory history(1);
  EXPECT_EQ(history.next_boundary(0), 0);  // none has begun
  ASSERT_EQ(history.add(report(0, 7), 100), 1U);
  EXPECT_EQ(history.add(report(0, 7), 200), 0U);
  history.keep(iteration(7, 1), 0);
  EXPECT_EQ(history.latest(), 7);
  EXPECT_EQ(history.next_boundary(100), 9);
  EXPECT_EQ(history.next_boundary(100.95), 10);  // iteration 9 begins within the time that delivery takes
  EXPECT_EQ(history.next_boundary(200), history.next_boundary(101));  // no iteration is known to have passed
}

}  // namespace

}  // namespace lowgear::server

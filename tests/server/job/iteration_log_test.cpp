#include "server/job/iteration_log.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::server {
namespace {

protocol::RankReports reports(int rank, std::int64_t first, int count = 1, double time_s = 1) {
  protocol::RankReports of_rank;
  of_rank.rank = rank;
  for (int i = 0; i < count; ++i) {
    of_rank.reports.push_back(
        {.iteration = first + i, .plan_version = 1, .time_s = time_s, .compute_s = time_s / 2, .energy_j = 10});
  }
  return of_rank;
}

std::vector<std::int64_t> whole(IterationLog& log, double now_s = 0) {
  std::vector<std::int64_t> iterations;
  while (const auto iteration = log.next(now_s)) iterations.push_back(iteration->iteration);
  return iterations;
}

using Iterations = std::vector<std::int64_t>;

TEST(IterationLog, PutsAllRanksTogether) {
  IterationLog log(3);
  (void)log.add(reports(0, 0, 1, 1.0), 0);
  (void)log.add(reports(2, 0, 1, 3.0), 0);
  EXPECT_FALSE(log.next(0));
  (void)log.add(reports(1, 0, 1, 2.0), 0);
  const auto iteration = log.next(0);
  ASSERT_TRUE(iteration);
  EXPECT_EQ(iteration->ranks, 3);
  EXPECT_EQ(iteration->time_s, 3.0);
  EXPECT_EQ(iteration->energy_j, 30.0);
  EXPECT_EQ(iteration->plan_version, 1);
}

TEST(IterationLog, TakesTheTimesOfOneRankUntilThePlanChanges) {
  IterationLog log(2);
  auto next_s = [&, iteration = 0](double first_s, double second_s, int plan_version) mutable {
    for (const auto& [rank, time_s] : {std::pair(0, first_s), std::pair(1, second_s)}) {
      protocol::RankReports of_rank = reports(rank, iteration, 1, time_s);
      of_rank.reports[0].plan_version = plan_version;
      (void)log.add(of_rank, 0);
    }
    ++iteration;
    return log.next(0)->time_s;
  };
  EXPECT_EQ(next_s(1, 2, 1), 2);
  EXPECT_EQ(next_s(1, 2, 1), 2);
  EXPECT_EQ(next_s(2, 1, 1), 1) << "the other rank waits in turn";
  EXPECT_EQ(next_s(2, 1, 2), 2);
}

TEST(IterationLog, KnowsNoEnergyUnlessAllHaveMeasuredIt) {
  IterationLog log(2);
  (void)log.add(reports(0, 0), 0);
  protocol::RankReports other = reports(1, 0);
  other.reports[0].energy_j.reset();
  other.reports[0].plan_version = 2;
  (void)log.add(other, 0);
  const auto iteration = log.next(0);
  ASSERT_TRUE(iteration);
  EXPECT_FALSE(iteration->energy_j);
  EXPECT_EQ(iteration->plan_version, kMixedPlans);
  EXPECT_TRUE(to_json(*iteration)["plan_version"].is_null());
}

protocol::RankReports predicted(int rank, std::int64_t iteration, std::optional<double> predicted_s,
                                std::optional<double> units_s) {
  protocol::RankReports of_rank = reports(rank, iteration);
  of_rank.reports[0].predicted_time_s = predicted_s;
  of_rank.reports[0].units_time_s = units_s;
  of_rank.reports[0].full_clocks = !predicted_s;
  return of_rank;
}

TEST(IterationLog, KnowsWhatAnyRankHasPredictedAndTheUnitsOfAll) {
  IterationLog log(2);
  (void)log.add(predicted(0, 0, 0.8, 0.7), 0);
  (void)log.add(predicted(1, 0, {}, 0.75), 0);
  (void)log.add(predicted(0, 1, 0.9, 0.7), 0);
  (void)log.add(predicted(1, 1, 0.9, {}), 0);
  const auto late = log.next(0);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->predicted_time_s, 0.8);
  EXPECT_EQ(late->units_time_s, 0.75);
  EXPECT_TRUE(late->full_clocks) << "rank 1 has planned too late";
  const auto unmeasured = log.next(0);
  ASSERT_TRUE(unmeasured);
  EXPECT_EQ(unmeasured->predicted_time_s, 0.9);
  EXPECT_FALSE(unmeasured->units_time_s) << "the longest may be that of rank 1";
  EXPECT_FALSE(unmeasured->full_clocks);
}

TEST(IterationLog, KnowsNoTimeOfUnitsWhereARankHasEnded) {
  IterationLog log(2);
  (void)log.add(predicted(0, 0, 2, 1), 0);
  (void)log.add(predicted(1, 0, 2, 2), 0);
  EXPECT_EQ(log.next(0)->units_time_s, 2);
  log.finish(1);
  (void)log.add(predicted(0, 1, 2, 1), 0);
  const auto iteration = log.next(0);
  ASSERT_TRUE(iteration);
  EXPECT_TRUE(iteration->lacking.empty());
  EXPECT_FALSE(iteration->units_time_s) << "units of rank 1 take longer";
  EXPECT_EQ(iteration->predicted_time_s, 2);
}

TEST(IterationLog, CountsByThePlanOfTheRanksThatFollowOne) {
  IterationLog log(3);
  const std::vector<std::vector<int>> versions{{0, 0, 0}, {0, 4, 4}, {4, 0, 0}, {4, 0, 5}};
  for (std::size_t iteration = 0; iteration < versions.size(); ++iteration) {
    for (int rank = 0; rank < 3; ++rank) {
      protocol::RankReports of_rank = reports(rank, static_cast<std::int64_t>(iteration));
      of_rank.reports[0].plan_version = versions[iteration][static_cast<std::size_t>(rank)];
      (void)log.add(of_rank, 0);
    }
  }
  EXPECT_EQ(log.next(0)->plan_version, 0);
  EXPECT_EQ(log.next(0)->plan_version, 4);
  EXPECT_EQ(log.next(0)->plan_version, 4);
  const auto mixed = log.next(0);
  EXPECT_EQ(mixed->plan_version, kMixedPlans);
  EXPECT_EQ(mixed->newest_version, 5);
}

TEST(IterationLog, IgnoresWhatWasReportedBefore) {
  IterationLog log(1);
  EXPECT_EQ(log.add(reports(0, 5, 3), 0), 3U);
  EXPECT_EQ(log.add(reports(0, 5, 3), 0), 0U);
  EXPECT_EQ(log.add(reports(0, 2, 2), 0), 0U);
  EXPECT_EQ(log.add(reports(0, 6, 3), 0), 1U);
  EXPECT_EQ(whole(log), (Iterations{5, 6, 7, 8}));
}

TEST(IterationLog, WaitsForNoRankThatHasEnded) {
  IterationLog log(3);
  (void)log.add(reports(0, 0, 2), 0);
  (void)log.add(reports(1, 0, 2), 0);
  (void)log.add(reports(2, 0, 1), 0);
  EXPECT_EQ(whole(log), Iterations{0});
  log.finish(2);
  log.finish(2);
  EXPECT_EQ(whole(log), Iterations{1});
  (void)log.add(reports(0, 2), 0);
  log.finish(0);  // it has reported what it ended after
  EXPECT_EQ(whole(log), Iterations{});
  (void)log.add(reports(1, 2), 0);
  EXPECT_EQ(whole(log), Iterations{2});
}

TEST(IterationLog, GivesUpWhatASilentRankHoldsUp) {
  IterationLog log(3);
  for (int i = 0; i <= IterationLog::kOpenIterations; ++i) {
    (void)log.add(reports(0, i), i);
    (void)log.add(reports(1, i), i);
    if (i < IterationLog::kOpenIterations) {
      EXPECT_EQ(whole(log, i), Iterations{}) << i;
    }
  }
  EXPECT_EQ(whole(log, IterationLog::kOpenIterations), Iterations{0});
  EXPECT_EQ(log.add(reports(2, 0, 3), 40), 3U);
  EXPECT_EQ(whole(log, 40), (Iterations{1, 2}));  // 0 is gone; nothing is said twice
}

TEST(IterationLog, WaitsForNoRankThatHasPassedAnIteration) {
  IterationLog log(3);
  (void)log.add(reports(0, 0, 3), 0);
  (void)log.add(reports(1, 0, 3), 0);
  (void)log.add(reports(2, 0), 0);
  (void)log.add(reports(2, 2), 0);
  EXPECT_EQ(log.next(0)->lacking, std::vector<int>{});
  EXPECT_EQ(log.next(0)->lacking, std::vector<int>{2});
  EXPECT_EQ(log.next(0)->ranks, 3);
  (void)log.add(reports(2, 5), 0);  // before the others get there
  (void)log.add(reports(1, 3, 3), 0);
  (void)log.add(reports(0, 3, 3), 0);
  EXPECT_EQ(whole(log), (Iterations{3, 4, 5}));
}

TEST(IterationLog, DropsWhatIsNotCompleteAtTheEnd) {
  IterationLog log(2);
  (void)log.add(reports(0, 0, 10), 0);
  (void)log.add(reports(1, 0, 4), 0);
  const auto dropped = log.end();
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->first_iteration, 4);
  EXPECT_EQ(dropped->iterations, 6U);
  EXPECT_EQ(dropped->ranks, std::vector<int>{1});
  EXPECT_EQ(whole(log), (Iterations{0, 1, 2, 3}));
  EXPECT_FALSE(log.end());
}

TEST(IterationLog, WaitsForRanksThatReportAnOutageOneByOne) {
  IterationLog log(2);
  (void)log.add(reports(0, 0, 1000), 50);
  EXPECT_EQ(whole(log, 50), Iterations{});
  (void)log.add(reports(1, 0, 1000), 51);
  for (int i = 0; i < 1000; ++i) {
    const auto iteration = log.next(51);
    ASSERT_TRUE(iteration);
    EXPECT_EQ(iteration->ranks, 2);
  }
}

TEST(IterationLog, CountsAnIterationAsReachedOnceTwoRanksSaySo) {
  IterationLog log(4);
  EXPECT_EQ(log.latest(), -1);
  (void)log.add(reports(0, 0, 5), 0);
  EXPECT_EQ(log.latest(), -1);
  (void)log.add(reports(1, 0, 3), 0);
  EXPECT_EQ(log.latest(), 2);
  log.finish(0);
  log.finish(2);
  log.finish(3);
  (void)log.add(reports(1, 3, 7), 0);
  EXPECT_EQ(log.latest(), 9);  // it is the only one by now
}

TEST(IterationLog, RefusesARankThatLeapsAheadWhileOthersGoOn) {
  IterationLog log(2);
  (void)log.add(reports(0, 0), 0);
  (void)log.add(reports(1, 0), 0);
  EXPECT_NE(error_of([&] { (void)log.add(reports(1, 1'000'000'000'000), 1); }).find("1000000000000"),
            std::string::npos);
  EXPECT_EQ(log.last_iteration(1), 0);
  EXPECT_EQ(log.add(reports(1, IterationLog::kMaxLead), 1), 1U);
  EXPECT_EQ(log.latest(), 0);
}

TEST(IterationLog, IsNotDerailedByARankThatBeginsFarAhead) {
  IterationLog log(3);
  (void)log.add(reports(0, 1'000'000'000'000), 0);
  for (int i = 0; i < 100; ++i) {
    (void)log.add(reports(1, i), i);
    (void)log.add(reports(2, i), i);
    (void)whole(log, i);
  }
  EXPECT_EQ(log.latest(), 99);
}

TEST(IterationLog, FollowsRanksThatTrainedOnUnheard) {
  IterationLog log(2);
  (void)log.add(reports(0, 0), 0);
  (void)log.add(reports(1, 0), 0);
  EXPECT_EQ(whole(log), Iterations{0});
  (void)log.add(reports(0, 5'000'000), 3'600);
  (void)log.add(reports(1, 5'000'000), 3'600);
  EXPECT_EQ(whole(log, 3'600), Iterations{5'000'000});
  EXPECT_EQ(log.latest(), 5'000'000);
}

TEST(IterationLog, KeepsABoundedNumberOfReports) {
  IterationLog log(3);
  std::size_t given_up = 0;
  for (int i = 0; i < 150; ++i) {
    (void)log.add(reports(0, 1000LL * i, 1000), 0);
    (void)log.add(reports(1, 1000LL * i, 1000), 0);
    given_up += whole(log).size();
  }
  EXPECT_GE(2 * given_up, 2 * 150'000 - IterationLog::kOpenReports);
}

protocol::RankReports read(const std::string& text) {
  const Json document = Json::parse(text);
  return protocol::read_rank_reports(JsonView(document, "body"));
}

TEST(ReadRankReports, RefusesWhatIsNoReport) {
  const std::string good = R"({"iteration":1,"plan_version":0,"time_s":1,"compute_s":1})";
  EXPECT_EQ(read(R"({"rank":0,"reports":[)" + good + "]}").reports.size(), 1U);
  for (const std::string wrong :
       {R"({"iteration":-1,"plan_version":0,"time_s":1,"compute_s":1})",
        R"({"iteration":2000000000000,"plan_version":0,"time_s":1,"compute_s":1})",
        R"({"iteration":1,"plan_version":-1,"time_s":1,"compute_s":1})",
        R"({"iteration":1,"plan_version":0,"time_s":0,"compute_s":1})",
        R"({"iteration":1,"plan_version":0,"time_s":1,"compute_s":-1})",
        R"({"iteration":1,"plan_version":0,"time_s":1,"compute_s":1,"energy_j":-1})",
        R"({"iteration":1,"plan_version":0,"time_s":1,"compute_s":1,"throttled_power":1.1})",
        R"({"iteration":1,"plan_version":0,"time_s":1,"compute_s":1,"more":1})", R"({"iteration":1})", R"([])"}) {
    EXPECT_THROW((void)read(R"({"rank":0,"reports":[)" + wrong + "]}"), InputError) << wrong;
  }
  EXPECT_NE(error_of([&] { (void)read(R"({"rank":0,"reports":[)" + good + "," + good + "]}"); }).find("does not rise"),
            std::string::npos);
}

}  // namespace
}  // namespace lowgear::server

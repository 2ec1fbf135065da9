#include "planning/adapt/operating_point_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/adapt/searched_job.h"

namespace lowgear::adapt {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Points in the order in which a search without noise runs its blocks, until it ends or `blocks` are over.
std::vector<int> block_order(OperatingPointSearch& search, const std::vector<TruePoint>& points, int iterations) {
  std::vector<int> order;
  for (int i = 0; i < iterations && !search.is_done(); ++i) {
    order.push_back(search.current());
    const TruePoint& point = points[static_cast<std::size_t>(search.current())];
    (void)search.observe(point.time_s, point.energy_j);
  }
  return order;
}

TEST(OperatingPointSearch, TwoPointsTakeTurnsAsABBA) {
  OperatingPointSearch search({"a", "b"}, {.allowed_slowdown_pct = 5, .block_s = 30, .settle_iterations = 0});
  EXPECT_THAT(block_order(search, {{30, 100}, {30, 100}}, 6), ElementsAre(0, 1, 1, 0, 0, 1));
}

TEST(OperatingPointSearch, ABlockTakesItsTimeAfterIterationsToSettle) {
  OperatingPointSearch search({"a", "b"}, {.allowed_slowdown_pct = 5, .block_s = 30, .settle_iterations = 2});
  // Two to settle, then 12 + 12 + 12 s.
  EXPECT_THAT(block_order(search, {{12, 100}, {40, 100}}, 9), ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(OperatingPointSearch, WithoutNoiseTakesTwoRoundsAndTheBestAllowedPoint) {
  OperatingPointSearch search({"full", "good", "slow", "poor"}, {.allowed_slowdown_pct = 1});
  const std::vector<TruePoint> points = {{10, 100}, {10.05, 95}, {10.3, 80}, {10.02, 102}};
  std::vector<SearchDecision> decisions;
  int iterations = 0;
  for (; !search.is_done() && iterations < 1000; ++iterations) {
    const TruePoint& point = points[static_cast<std::size_t>(search.current())];
    for (const SearchDecision& decision : search.observe(point.time_s, point.energy_j)) decisions.push_back(decision);
  }
  EXPECT_EQ(iterations, 2 * (4 + 2) * (1 + 3)) << "a round of four points and one of two";
  EXPECT_EQ(search.current(), 1);
  ASSERT_EQ(decisions.size(), 3U);
  EXPECT_EQ(decisions[0].action, SearchAction::dropped_as_slow);
  EXPECT_THAT(decisions[0].reason, HasSubstr("slow is 3.00 % slower than full, at least 3.00 %, and 1 % is allowed"));
  EXPECT_EQ(decisions[1].action, SearchAction::dropped_as_costly);
  EXPECT_EQ(decisions[1].point, 3);
  EXPECT_EQ(decisions[2].action, SearchAction::chosen);
  EXPECT_THAT(decisions[2].reason, HasSubstr("good: -5.00 % energy, +0.50 % time against full after 48 iterations"));
  EXPECT_NEAR(search.estimate(1).energy_pct, -5, 1e-9);
  EXPECT_NEAR(search.estimate(2).slowdown_pct, 3, 1e-9);
  EXPECT_TRUE(search.observe(1, 1).empty()) << "it is over";
}

TEST(OperatingPointSearch, ChargesWhatItTookBeyondTheFirstPoint) {
  OperatingPointSearch search({"full", "other"}, {.allowed_slowdown_pct = 100});
  const std::vector<TruePoint> points = {{10, 100}, {12, 90}};
  const std::vector<int> order = block_order(search, points, 1000);
  ASSERT_TRUE(search.is_done());
  const auto others = static_cast<double>(std::count(order.begin(), order.end(), 1));
  EXPECT_EQ(search.cost().iterations, static_cast<int>(order.size()));
  EXPECT_NEAR(search.cost().time_s, 2 * others, 1e-9);
  EXPECT_NEAR(search.cost().energy_j, -10 * others, 1e-9);
}

TEST(OperatingPointSearch, LinearDriftChangesNothing) {
  OperatingPointSearch search({"full", "other"}, {.allowed_slowdown_pct = 5, .settle_iterations = 0});
  for (int i = 0; !search.is_done() && i < 1000; ++i) {
    const double drift = 1 + 0.001 * i;
    (void)search.observe(30 * drift, (search.current() == 0 ? 100 : 99) * drift);
  }
  EXPECT_EQ(search.current(), 1);
  EXPECT_NEAR(search.estimate(1).energy_pct, -1, 0.01);
  EXPECT_NEAR(search.estimate(1).slowdown_pct, 0, 0.01);
}

/// How many of so many searches came within 0.5 % of the best point, against brute force over the true figures.
struct Tally {
  int within = 0;
  int too_slow = 0;
  int most_iterations = 0;
};

constexpr unsigned kSearches = 200;

Tally tally(double iteration_time_s, double allowed_slowdown_pct, const JobNoise& noise) {
  Tally result;
  for (unsigned seed = 0; seed < kSearches; ++seed) {
    const SearchOutcome outcome = search_outcome(random_frontier(iteration_time_s, seed),
                                                 {.allowed_slowdown_pct = allowed_slowdown_pct}, noise, seed);
    result.within += outcome.regret_pct <= 0.5 ? 1 : 0;
    result.too_slow += outcome.too_slow_pct > 0.5 ? 1 : 0;
    result.most_iterations = std::max(result.most_iterations, outcome.iterations);
  }
  return result;
}

TEST(OperatingPointSearch, FindsTheBestPointWithinThreeHundredIterations) {
  for (const double iteration_time_s : {3.0, 8.0, 20.0}) {
    SCOPED_TRACE(iteration_time_s);
    // Quiet, as iterations are, and no point at the edge of what is allowed.
    const Tally quiet = tally(iteration_time_s, 3, {.iteration = 0.002, .slow = 0.001});
    EXPECT_EQ(quiet.within, kSearches);
    EXPECT_EQ(quiet.too_slow, 0);
    const Tally usual = tally(iteration_time_s, 3, {});
    EXPECT_GE(usual.within, 194);
    EXPECT_EQ(usual.too_slow, 0);
    // The true slowdown of one point is on either side of the allowed one, and cannot be determined to 0.1 %.
    const Tally edge = tally(iteration_time_s, 1.2, {});
    EXPECT_GE(edge.within, 178);
    EXPECT_LE(edge.too_slow, 18);
    for (const Tally& it : {quiet, usual, edge}) EXPECT_LE(it.most_iterations, 300);
  }
}

TEST(OperatingPointSearch, TheSameObservationsGiveTheSameDecisions) {
  const std::vector<TruePoint> points = random_frontier(6, 5);
  SearchedJob job(points, {}, 5);
  OperatingPointSearch first(frontier_names(), {.allowed_slowdown_pct = 1.5});
  OperatingPointSearch again(frontier_names(), {.allowed_slowdown_pct = 1.5});
  while (!first.is_done()) {
    const TruePoint iteration = job.iterate(first.current());
    ASSERT_EQ(first.current(), again.current());
    EXPECT_EQ(first.observe(iteration.time_s, iteration.energy_j), again.observe(iteration.time_s, iteration.energy_j));
  }
  EXPECT_TRUE(again.is_done());
  EXPECT_EQ(first.current(), again.current());
  EXPECT_EQ(first.estimate(3).energy_pct, again.estimate(3).energy_pct);
}

TEST(OperatingPointSearch, AnAbandonedBlockIsRepeatedAndNotCounted) {
  OperatingPointSearch search({"full", "other"}, {.allowed_slowdown_pct = 5, .settle_iterations = 0});
  (void)search.observe(20, 100);
  (void)search.observe(400, 9000);  // a checkpoint ends the block, and the next one begins
  EXPECT_EQ(search.current(), 1);
  (void)search.observe(20, 100);
  search.abandon_block();
  (void)search.observe(20, 100);
  EXPECT_EQ(search.current(), 1) << "20 s of the repeated block";
  (void)search.observe(20, 100);
  EXPECT_EQ(search.cost().iterations, 4) << "two blocks of two";
}

TEST(OperatingPointSearch, ARestartForgetsAllButTheCost) {
  const std::vector<TruePoint> points = {{10, 100}, {10.05, 90}};
  OperatingPointSearch search({"full", "other"}, {.allowed_slowdown_pct = 1});
  const auto before = static_cast<int>(block_order(search, points, 1000).size());
  EXPECT_EQ(search.current(), 1);
  search.restart({"full", "a", "b"});
  EXPECT_FALSE(search.is_done());
  EXPECT_EQ(search.current(), 0);
  EXPECT_EQ(search.estimate(2).rounds, 0);
  EXPECT_TRUE(std::isinf(search.estimate(2).energy_error_pct));
  EXPECT_EQ(search.cost().iterations, before);
  const double time_s = search.cost().time_s;
  EXPECT_GT(time_s, 0);
  (void)block_order(search, {{5, 50}, {5.01, 40}, {6, 30}}, 1000);
  EXPECT_EQ(search.current(), 1);
  EXPECT_GT(search.cost().time_s, time_s);
}

TEST(OperatingPointSearch, EndsAfterTwoRoundsWhereMoreIterationsAreNotAllowed) {
  OperatingPointSearch search({"full", "other"}, {.allowed_slowdown_pct = 5, .max_iterations = 1});
  SearchedJob job({{10, 100}, {10, 100}}, {.iteration = 0.1}, 1);
  std::vector<SearchDecision> decisions;
  while (!search.is_done()) {
    const TruePoint iteration = job.iterate(search.current());
    decisions = search.observe(iteration.time_s, iteration.energy_j);
  }
  ASSERT_FALSE(decisions.empty());
  EXPECT_THAT(decisions.back().reason, HasSubstr("after the allowed 1 iterations"));
  EXPECT_EQ(search.estimate(1).rounds, 2);
}

TEST(OperatingPointSearch, RefusesWhatItCannotUse) {
  const auto refusal = [](const std::vector<std::string>& points, const SearchOptions& options) {
    return error_of([&] { OperatingPointSearch search(points, options); });
  };
  EXPECT_THAT(refusal({"one"}, {}), HasSubstr("1 operating points; give 2 to 64"));
  EXPECT_THAT(refusal({"a", "b"}, {.allowed_slowdown_pct = -1}), HasSubstr("0 to 1000 %"));
  EXPECT_THAT(refusal({"a", "b"}, {.block_s = 0}), HasSubstr("more than 0 s"));
  EXPECT_THAT(refusal({"a", "b"}, {.settle_iterations = -1}), HasSubstr("to settle"));
  EXPECT_THAT(refusal({"a", "b"}, {.confidence = 1}), HasSubstr("confidence"));
  EXPECT_THAT(refusal({"a", "b"}, {.tolerance = -0.1}), HasSubstr("tolerance"));
  EXPECT_THAT(refusal({"a", "b"}, {.max_iterations = 0}), HasSubstr("at least 1 iteration"));

  OperatingPointSearch search({"a", "b"}, {});
  for (const double wrong : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(error_of([&] { (void)search.observe(wrong, 1); }), HasSubstr("must be positive and finite"));
    EXPECT_THAT(error_of([&] { (void)search.observe(1, wrong); }), HasSubstr("must be positive and finite"));
  }
  EXPECT_EQ(search.cost().iterations, 0);
  EXPECT_THAT(error_of([&] { search.restart({}); }), HasSubstr("0 operating points"));
  EXPECT_THAT(error_of([&] { (void)search.estimate(2); }), HasSubstr("there is no point 2"));
}

using testing::ElementsAre;

/// As an H100 lists them.
std::vector<int> h100_clocks_mhz() {
  std::vector<int> clocks_mhz;
  for (int clock_mhz = 1980; clock_mhz >= 210; clock_mhz -= 15) clocks_mhz.push_back(clock_mhz);
  return clocks_mhz;
}

TEST(DefaultClocks, AreFullSpeedTheLowestThatIsSurelyAllowedAndBelow) {
  // 1980 / 1.02 = 1941.2; then in equal steps to 0.55 * 1980 = 1089; each the supported one at or above.
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1980, 2), ElementsAre(1980, 1950, 1740, 1530, 1305, 1095));
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1980, 25), ElementsAre(1980, 1590, 1470, 1350, 1215, 1095));
}

TEST(DefaultClocks, NameNoClockTwice) {
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1980, 0), ElementsAre(1980, 1770, 1545, 1320, 1095));
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1980, 500), ElementsAre(1980, 1095));
  EXPECT_THAT(default_clocks_mhz(std::vector{1000, 1410}, 1410, 5), ElementsAre(1410, 1000));
  EXPECT_THROW((void)default_clocks_mhz(std::vector{1410, 300}, 1410, 5), InputError)
      << "none above 0.55 of the highest";
  EXPECT_THROW((void)default_clocks_mhz(std::vector<int>{}, 1410, 5), InputError);
}

TEST(DefaultClocks, BeginBelowTheClockThatAPowerLimitAllows) {
  // 1620 / 1.02 = 1588.2; then in equal steps of 124.8 to 1089.
  EXPECT_THAT(default_clocks_mhz(h100_clocks_mhz(), 1620, 2), ElementsAre(1980, 1590, 1470, 1350, 1215, 1095));
  EXPECT_EQ(default_clocks_mhz(h100_clocks_mhz(), 2500, 2), default_clocks_mhz(h100_clocks_mhz(), 1980, 2));
}

TEST(DefaultPowerLimits, GoEvenlyFromWhatTheJobDrawsToHalfOrToTheLeast) {
  EXPECT_THAT(default_power_limits_w(200, 700, 700), ElementsAre(700, 679, 597, 515, 433, 350));
  EXPECT_THAT(default_power_limits_w(200, 700, 500), ElementsAre(700, 485, 427, 368, 309, 250)) << "all of them bind";
  EXPECT_THAT(default_power_limits_w(300, 400, 400), ElementsAre(400, 388, 366, 344, 322, 300));
  EXPECT_THROW((void)default_power_limits_w(200, 700, 190), InputError);
}

}  // namespace

}  // namespace lowgear::adapt

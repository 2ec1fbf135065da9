#include "server/steering/straggler_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "base/core/error_of.h"
#include "server/steering/noisy_job.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

void run(StragglerDetector& detector, NoisyJob& job, int iterations) {
  for (int i = 0; i < iterations; ++i) (void)detector.observe(job.iteration());
}

/// Iterations until the detector says something of the rank; `most` when it says nothing.
std::optional<SlowdownChange> next_change(StragglerDetector& detector, NoisyJob& job, int most, int& iterations) {
  for (iterations = 1; iterations <= most; ++iterations) {
    const auto changes = detector.observe(job.iteration());
    if (!changes.empty()) return changes.front();
  }
  return std::nullopt;
}

TEST(StragglerDetector, IsSilentForAHundredThousandIterationsOfNoise) {
  for (const double spread : {0.005, 0.02, 0.05}) {
    NoisyJob job(8, spread, 1);
    StragglerDetector detector(8);
    for (int i = 0; i < 100'000; ++i) {
      const auto changes = detector.observe(job.iteration());
      ASSERT_THAT(changes, IsEmpty()) << "iteration " << i << " at a spread of " << spread << ": rank "
                                      << changes.front().rank.value_or(-1) << " " << changes.front().factor;
    }
    EXPECT_NEAR(detector.noise(3), spread, 0.3 * spread);
    EXPECT_EQ(detector.factor(3), 1);
  }
}

TEST(StragglerDetector, IsSilentForJobsOfOneAndTwoRanks) {
  for (const int ranks : {1, 2, 3}) {
    NoisyJob job(ranks, 0.02, 2);
    StragglerDetector detector(ranks);
    for (int i = 0; i < 100'000; ++i) ASSERT_THAT(detector.observe(job.iteration()), IsEmpty()) << ranks << ", " << i;
  }
}

TEST(StragglerDetector, SeesAFifthWithinTwoIterationsAndItsEndToo) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    NoisyJob job(4, 0.02, seed);
    StragglerDetector detector(4);
    run(detector, job, static_cast<int>(20 + seed));
    job.factors[2] = 1.2;
    int iterations = 0;
    const auto slower = next_change(detector, job, 3, iterations);
    ASSERT_TRUE(slower) << seed;
    EXPECT_LE(iterations, 2) << seed;
    EXPECT_EQ(slower->rank, 2);
    EXPECT_EQ(slower->cause, SlowdownCause::straggler);
    EXPECT_NEAR(slower->factor, 1.2, 0.07);
    run(detector, job, 20);
    EXPECT_NEAR(detector.factor(2), 1.2, 0.035) << "corrected after eight iterations; " << seed;
    job.factors[2] = 1;
    const auto gone = next_change(detector, job, 3, iterations);
    ASSERT_TRUE(gone) << seed;
    EXPECT_LE(iterations, 2) << seed;
    EXPECT_EQ(gone->rank, 2);
  }
}

TEST(StragglerDetector, FindsARankAgainThatItWasToldToForget) {
  NoisyJob job(4, 0.02, 3);
  StragglerDetector detector(4);
  run(detector, job, 20);
  job.factors[2] = 1.3;
  run(detector, job, 20);
  detector.forget(2);
  EXPECT_EQ(detector.factor(2), 1);
  int iterations = 0;
  const auto again = next_change(detector, job, 3, iterations);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->rank, 2);
  EXPECT_NEAR(again->factor, 1.3, 0.07);
}

TEST(StragglerDetector, ContinuesFromWhatAnotherOneKnew) {
  NoisyJob job(4, 0.005, 4);
  StragglerDetector detector(4);
  detector.assume(2, 1.3, SlowdownCause::power_throttle);
  job.factors[2] = 1.3;
  for (int i = 0; i < 40; ++i) {
    for (const SlowdownChange& change : detector.observe(job.iteration())) EXPECT_NEAR(change.factor, 1.3, 0.01);
  }
  EXPECT_NEAR(detector.factor(2), 1.3, 0.01);
  job.factors[2] = 1;
  int iterations = 0;
  const auto gone = next_change(detector, job, 3, iterations);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->rank, 2);
  EXPECT_EQ(gone->cause, SlowdownCause::none);
}

TEST(StragglerDetector, ActsOnTheFirstTwoIterationsOfAJob) {
  NoisyJob job(4, 0.005, 5);
  job.factors[1] = 1.3;
  StragglerDetector detector(4);
  EXPECT_THAT(detector.observe(job.iteration()), IsEmpty()) << "one iteration may be an outlier";
  const auto changes = detector.observe(job.iteration());
  ASSERT_EQ(changes.size(), 1);
  EXPECT_EQ(changes[0].rank, 1);
  EXPECT_NEAR(changes[0].factor, 1.3, 0.03);
  EXPECT_EQ(changes[0].iterations, 2);
}

TEST(StragglerDetector, NeedsMoreIterationsForLess) {
  double before = 0;
  for (const double factor : {1.3, 1.1, 1.07}) {
    double sum = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      NoisyJob job(8, 0.02, seed);
      StragglerDetector detector(8);
      run(detector, job, 100);
      job.factors[5] = factor;
      int iterations = 0;
      const auto change = next_change(detector, job, 200, iterations);
      ASSERT_TRUE(change) << factor << " " << seed;
      EXPECT_EQ(change->rank, 5);
      sum += iterations;
    }
    EXPECT_GT(sum / 100, before);
    EXPECT_LT(sum / 100, 12);
    before = sum / 100;
  }
}

TEST(StragglerDetector, LeavesSmallDifferencesAlone) {
  NoisyJob job(8, 0.01, 3);
  job.factors[4] = 1.03;
  StragglerDetector detector(8);
  for (int i = 0; i < 20'000; ++i) ASSERT_THAT(detector.observe(job.iteration()), IsEmpty()) << i;
}

TEST(StragglerDetector, LeavesSingleSlowIterationsAlone) {
  NoisyJob job(8, 0.02, 4);
  StragglerDetector detector(8);
  int alarms = 0;
  for (int i = 0; i < 50'000; ++i) {
    auto iteration = job.iteration();
    // A pause of some rank about every tenth iteration: a checkpoint, a page fault, another process.
    for (RankIteration& rank : iteration) rank.compute_time_s *= job.noise.uniform() < 0.01 ? 1.5 : 1;
    for (const SlowdownChange& change : detector.observe(iteration)) alarms += change.factor > 1 ? 1 : 0;
  }
  // Two in a row are a slowdown as far as anybody can tell: 8 ranks x 50,000 x 1e-4 = 40 of them.
  EXPECT_LT(alarms, 80);
}

TEST(StragglerDetector, FollowsAFactorThatChanges) {
  NoisyJob job(4, 0.01, 6);
  StragglerDetector detector(4);
  run(detector, job, 50);
  job.factors[0] = 1.15;
  run(detector, job, 30);
  EXPECT_NEAR(detector.factor(0), 1.15, 0.02);
  job.factors[0] = 1.4;
  run(detector, job, 30);
  EXPECT_NEAR(detector.factor(0), 1.4, 0.02);
  job.factors[0] = 1.1;
  run(detector, job, 30);
  EXPECT_NEAR(detector.factor(0), 1.1, 0.02);
  job.factors[0] = 1;
  run(detector, job, 30);
  EXPECT_EQ(detector.factor(0), 1);
}

TEST(StragglerDetector, KnowsSeveralStragglersApart) {
  NoisyJob job(8, 0.02, 7);
  StragglerDetector detector(8);
  run(detector, job, 50);
  job.factors[1] = 1.2;
  job.factors[6] = 1.5;
  run(detector, job, 40);
  EXPECT_NEAR(detector.factor(1), 1.2, 0.04);
  EXPECT_NEAR(detector.factor(6), 1.5, 0.05);
  EXPECT_EQ(detector.factor(0), 1);
}

TEST(StragglerDetector, TellsThrottlingFromOtherCauses) {
  for (const auto& [power, thermal, cause] :
       {std::tuple{0.9, 0.0, SlowdownCause::power_throttle}, std::tuple{0.3, 0.9, SlowdownCause::thermal_throttle},
        std::tuple{0.05, 0.0, SlowdownCause::straggler}}) {
    NoisyJob job(4, 0.01, 8);
    StragglerDetector detector(4);
    run(detector, job, 50);
    job.factors[3] = 1.2;
    std::vector<SlowdownChange> changes;
    for (int i = 0; i < 2 && changes.empty(); ++i) {
      auto iteration = job.iteration();
      iteration[3].power_throttled_share = power;
      iteration[3].thermal_throttled_share = thermal;
      changes = detector.observe(iteration);
    }
    ASSERT_EQ(changes.size(), 1);
    EXPECT_EQ(changes[0].cause, cause) << name(changes[0].cause);
  }
}

TEST(StragglerDetector, ThrottlingAsBeforeIsNoCause) {
  NoisyJob job(4, 0.01, 8);
  StragglerDetector detector(4);
  std::vector<SlowdownChange> changes;
  for (int i = 0; i < 60; ++i) {
    if (i == 50) job.factors[3] = 1.2;
    auto iteration = job.iteration();
    for (RankIteration& rank : iteration) rank.power_throttled_share = 0.98;
    for (const SlowdownChange& change : detector.observe(iteration)) changes.push_back(change);
  }
  ASSERT_FALSE(changes.empty());
  for (const SlowdownChange& change : changes) EXPECT_EQ(change.cause, SlowdownCause::straggler);
}

TEST(StragglerDetector, ThrottlingWithoutASlowdownIsNoChange) {
  NoisyJob job(4, 0.01, 9);
  StragglerDetector detector(4);
  for (int i = 0; i < 1000; ++i) {
    auto iteration = job.iteration();
    for (RankIteration& rank : iteration) rank.power_throttled_share = 1;
    ASSERT_THAT(detector.observe(iteration), IsEmpty()) << i;
  }
}

TEST(StragglerDetector, ThrottlingOfAllRanksIsNoDrift) {
  NoisyJob job(4, 0.01, 10);
  StragglerDetector detector(4);
  run(detector, job, 50);
  job.factors.assign(4, 1.2);
  std::vector<SlowdownChange> changes;
  for (int i = 0; i < 2; ++i) {
    auto iteration = job.iteration();
    for (RankIteration& rank : iteration) rank.power_throttled_share = 1;
    for (const SlowdownChange& change : detector.observe(iteration)) changes.push_back(change);
  }
  ASSERT_EQ(changes.size(), 4);
  for (const SlowdownChange& change : changes) EXPECT_EQ(change.cause, SlowdownCause::power_throttle);
}

TEST(StragglerDetector, SlowChangeOfAllRanksIsDrift) {
  NoisyJob job(8, 0.02, 11);
  StragglerDetector detector(8);
  std::vector<SlowdownChange> changes;
  for (int i = 0; i < 4000; ++i) {
    job.factors.assign(8, 1 + 0.1 * i / 4000);
    for (const SlowdownChange& change : detector.observe(job.iteration())) changes.push_back(change);
  }
  ASSERT_FALSE(changes.empty());
  for (const SlowdownChange& change : changes) {
    EXPECT_EQ(change.rank, std::nullopt);
    EXPECT_EQ(change.cause, SlowdownCause::drift);
  }
  EXPECT_NEAR(changes.front().factor, 1.03, 0.001);
  EXPECT_NEAR(detector.common_factor(), 1.1, 0.01);
}

TEST(StragglerDetector, ReportsAChangeOfAllRanksOnce) {
  NoisyJob job(8, 0.02, 11);
  StragglerDetector detector(8);
  run(detector, job, 50);
  std::vector<double> reported;
  for (int i = 0; i < 400; ++i) {
    job.factors.assign(8, 1 + 0.3 * std::min(1.0, i / 60.0));
    for (const SlowdownChange& change : detector.observe(job.iteration())) reported.push_back(change.factor);
  }
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_NEAR(reported.front(), 1.3, 0.04);
}

TEST(StragglerDetector, AShortSlowdownOfAllRanksIsNoDrift) {
  for (const int ranks : {2, 3, 8}) {
    NoisyJob job(ranks, 0.02, 15);
    StragglerDetector detector(ranks);
    run(detector, job, 67);
    job.factors.assign(static_cast<std::size_t>(ranks), 2.2);
    job.factors[0] = 1.9;
    run(detector, job, 5);
    job.factors.assign(static_cast<std::size_t>(ranks), 1);
    for (int i = 0; i < 200; ++i) {
      for (const SlowdownChange& change : detector.observe(job.iteration())) {
        EXPECT_EQ(change.cause, SlowdownCause::none) << ranks << ", " << i << ": " << change.factor;
        EXPECT_NE(change.rank, std::nullopt) << "no drift was said";
      }
    }
    EXPECT_NEAR(detector.common_factor(), 1, 0.02) << ranks;
  }
}

TEST(StragglerDetector, TakesDriftBackOnceItIsOver) {
  for (const int ranks : {2, 8}) {
    NoisyJob job(ranks, 0.01, 16);
    StragglerDetector detector(ranks);
    run(detector, job, 50);
    job.factors.assign(static_cast<std::size_t>(ranks), 1.4);
    int iterations = 0;
    const auto drift = next_change(detector, job, 30, iterations);
    ASSERT_TRUE(drift) << ranks;
    EXPECT_EQ(drift->cause, SlowdownCause::drift);
    job.factors.assign(static_cast<std::size_t>(ranks), 1);
    const auto gone = next_change(detector, job, 30, iterations);
    ASSERT_TRUE(gone) << ranks;
    EXPECT_EQ(gone->rank, std::nullopt);
    EXPECT_EQ(gone->cause, SlowdownCause::none);
    EXPECT_EQ(gone->factor, 1);
  }
}

TEST(StragglerDetector, SuddenChangeOfMostRanksIsDriftAndStragglersAreStillSeen) {
  NoisyJob job(8, 0.01, 12);
  StragglerDetector detector(8);
  run(detector, job, 50);
  job.factors.assign(8, 1.15);
  int iterations = 0;
  const auto drift = next_change(detector, job, 20, iterations);
  ASSERT_TRUE(drift);
  EXPECT_EQ(drift->cause, SlowdownCause::drift);
  EXPECT_EQ(drift->rank, std::nullopt);
  run(detector, job, 50);
  EXPECT_NEAR(detector.common_factor(), 1.15, 0.01);
  job.factors[3] = 1.15 * 1.2;
  const auto straggler = next_change(detector, job, 2, iterations);
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->rank, 3);
  EXPECT_NEAR(straggler->factor, 1.2, 0.04);
  job.factors.assign(8, 1.0);
  run(detector, job, 300);
  EXPECT_NEAR(detector.common_factor(), 1, 0.01);
  EXPECT_EQ(detector.factor(3), 1);
}

TEST(StragglerDetector, AJobOfOneRankHasStragglersToo) {
  NoisyJob job(1, 0.01, 13);
  StragglerDetector detector(1);
  run(detector, job, 50);
  job.factors[0] = 1.2;
  int iterations = 0;
  const auto change = next_change(detector, job, 2, iterations);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->rank, 0);
  run(detector, job, 200);
  EXPECT_NEAR(detector.factor(0), 1.2, 0.02) << "a slow rank does not become the common level";
}

TEST(StragglerDetector, TakesIterationsInWhichRanksAreMissing) {
  NoisyJob job(4, 0.01, 14);
  job.factors[1] = 1.2;
  StragglerDetector detector(4);
  for (int i = 0; i < 40; ++i) {
    auto iteration = job.iteration();
    iteration.erase(iteration.begin() + (i % 2 == 0 ? 3 : 0));
    (void)detector.observe(iteration);
  }
  EXPECT_NEAR(detector.factor(1), 1.2, 0.02);
  EXPECT_THAT(detector.observe({}), IsEmpty());
}

TEST(StragglerDetector, RefusesBadInputAndStaysAsItWas) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  StragglerDetector detector(2);
  const auto error = [&](std::vector<RankIteration> ranks) { return error_of([&] { (void)detector.observe(ranks); }); };
  EXPECT_THAT(error({{0, 1, 1, 0, 0}, {2, 1, 1, 0, 0}}), HasSubstr("rank 2: the job has ranks 0 to 1"));
  EXPECT_THAT(error({{-1, 1, 1, 0, 0}}), HasSubstr("rank -1"));
  EXPECT_THAT(error({{1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}}), HasSubstr("twice"));
  EXPECT_THAT(error({{1, kNan, 1, 0, 0}}), HasSubstr("above 0"));
  EXPECT_THAT(error({{1, 1, 0, 0, 0}}), HasSubstr("above 0"));
  EXPECT_THAT(error({{0, 5, 1, 0, 0}, {1, std::numeric_limits<double>::infinity(), 1, 0, 0}}), HasSubstr("finite"));
  EXPECT_THAT(error({{1, 1, 1, 1.5, 0}}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error({{1, 1, 1, 0, kNan}}), HasSubstr("from 0 to 1"));
  EXPECT_EQ(detector.noise(0), 0.02) << "nothing of a refused iteration was taken";
  EXPECT_THAT(error_of([] { StragglerDetector none(0); }), HasSubstr("0 ranks"));
  EXPECT_THAT(error_of([] { StragglerDetector wrong(1, {.appears_at = 1.01}); }), HasSubstr("options out of range"));
  EXPECT_THAT(error_of([] { StragglerDetector wrong(1, {.first_noise = kNan}); }), HasSubstr("options out of range"));
}

}  // namespace
}  // namespace lowgear::server

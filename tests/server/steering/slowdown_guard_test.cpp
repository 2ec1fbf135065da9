#include "server/steering/slowdown_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/core/error_of.h"
#include "server/steering/noisy_job.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;

/// A job that runs what its guard says, some iterations later.
struct GuardedJob {
  SlowdownGuard guard;
  int reaction_iterations = 3;
  std::vector<double> plans_s;
  std::vector<GuardDecision> decisions;
  std::vector<double> reported_s;  ///< planned time of what was to be run after each iteration; 0: full clocks
  double now_s = 0;
  double time_s = 0;
  double full_clock_time_s = 0;  ///< what the same iterations would have taken at full clocks

  GuardedJob(const IterationBaseline& baseline, const GuardOptions& options, std::vector<double> planned_times_s)
      : guard(baseline, options), reaction_iterations(options.reaction_iterations) {
    set_plans(std::move(planned_times_s));
  }

  void set_plans(std::vector<double> planned_times_s) {
    plans_s = planned_times_s;
    guard.set_plans(std::move(planned_times_s));
    if (reported_s.empty()) reported_s.push_back(now_reported_s());
    reported_s.back() = now_reported_s();
  }

  [[nodiscard]] double now_reported_s() const {
    return guard.level().is_full_clocks ? 0 : plans_s[static_cast<std::size_t>(guard.level().steps_back)];
  }

  /// Planned time of the iteration that comes next; 0: full clocks.
  [[nodiscard]] double running_s() const {
    const auto reported = static_cast<int>(reported_s.size()) - 1 - reaction_iterations;
    return reported_s[static_cast<std::size_t>(std::max(0, reported))];
  }

  void iteration(double iteration_s, double full_clock_s, double scale = 1) {
    now_s += iteration_s;
    time_s += iteration_s;
    full_clock_time_s += full_clock_s;
    if (auto decision = guard.observe(now_s, iteration_s, scale)) decisions.push_back(*decision);
    reported_s.push_back(now_reported_s());
  }
};

constexpr IterationBaseline kExact{1, 0, 0};

TEST(SlowdownGuard, LeavesAPlanAloneThatKeepsItsTime) {
  Noise noise(1);
  GuardedJob job({1, 0.0005, 0.01}, {.limit_pct = 5}, {1.05, 1.02, 1});
  for (int i = 0; i < 100'000; ++i) job.iteration(1.05 + 0.01 * noise.normal(), 1);
  EXPECT_TRUE(job.decisions.empty()) << job.decisions.front().reason;
}

TEST(SlowdownGuard, LeavesThePlanOfNoSlowdownAlone) {
  Noise noise(2);
  GuardedJob job({1, 0.0005, 0.01}, {.limit_pct = 0}, {1});
  for (int i = 0; i < 100'000; ++i) job.iteration(1 + 0.01 * noise.normal(), 1);
  EXPECT_TRUE(job.decisions.empty()) << job.decisions.front().reason;
}

TEST(SlowdownGuard, StepsBackOneByOneThenToFullClocks) {
  GuardedJob job({1, 0.001, 0.005}, {.limit_pct = 5, .overrun_iterations = 10, .hold_s = 1e6}, {1.05, 1.03, 1.01});
  Noise noise(3);
  for (int i = 0; i < 200; ++i) {
    const bool is_full = job.running_s() == 0;
    job.iteration((is_full ? 1.0 : 1.08) + 0.005 * noise.normal(), 1);
  }
  ASSERT_EQ(job.decisions.size(), 3);
  EXPECT_EQ(job.decisions[0].action, GuardAction::step_back);
  EXPECT_EQ(job.decisions[0].level, (GuardLevel{false, 1}));
  EXPECT_THAT(job.decisions[0].reason, HasSubstr("% longer on average than full clocks, 5 % are allowed"));
  EXPECT_THAT(job.decisions[0].reason, HasSubstr("the guard goes back to a faster plan of 1.0300 s: the last"));
  EXPECT_EQ(job.decisions[1].level, (GuardLevel{false, 2}));
  EXPECT_EQ(job.decisions[2].action, GuardAction::full_clocks);
  EXPECT_TRUE(job.guard.level().is_full_clocks);
}

TEST(SlowdownGuard, ALargeExcessShowsAfterTwoIterations) {
  GuardedJob job({1, 0.001, 0.005}, {.limit_pct = 5, .reaction_iterations = 0, .overrun_iterations = 10}, {1.05, 1.02});
  job.iteration(1.1, 1);
  EXPECT_TRUE(job.decisions.empty());
  job.iteration(1.1, 1);
  ASSERT_EQ(job.decisions.size(), 1);
  EXPECT_EQ(job.decisions[0].level.steps_back, 1);
}

TEST(SlowdownGuard, RecoversOneStepAfterEachHoldAndLongerEachTime) {
  GuardOptions options{.limit_pct = 5, .reaction_iterations = 0, .overrun_iterations = 20, .hold_s = 100};
  GuardedJob job(kExact, options, {1.05, 1.02});
  for (int i = 0; i < 2; ++i) job.iteration(1.2, 1);
  ASSERT_EQ(job.guard.level().steps_back, 1);
  const double stepped_s = job.now_s;
  while (job.guard.level().steps_back == 1 && job.now_s < 1000) job.iteration(1.02, 1);
  ASSERT_EQ(job.guard.level().steps_back, 0);
  EXPECT_NEAR(job.now_s - stepped_s, 200, 2) << "the hold doubles with a step back";
  EXPECT_EQ(job.decisions.back().action, GuardAction::recover);
  EXPECT_THAT(job.decisions.back().reason,
              HasSubstr("the guard tries the plan of 1.0500 s again: it has changed nothing for 3.3"));
  for (int i = 0; i < 2; ++i) job.iteration(1.2, 1);
  ASSERT_EQ(job.guard.level().steps_back, 1);
  const double again_s = job.now_s;
  while (job.guard.level().steps_back == 1 && job.now_s < 2000) job.iteration(1.02, 1);
  EXPECT_NEAR(job.now_s - again_s, 400, 2);
}

TEST(SlowdownGuard, AClockThatGoesBackStandsStill) {
  GuardOptions options{.limit_pct = 5, .reaction_iterations = 0, .overrun_iterations = 20, .hold_s = 100};
  SlowdownGuard guard(kExact, options);
  guard.set_plans({1.05, 1.02});
  (void)guard.observe(1000, 1.2);
  ASSERT_TRUE(guard.observe(1001, 1.2));
  EXPECT_FALSE(guard.observe(-1e9, 1.02));
  EXPECT_FALSE(guard.observe(1100, 1.02));
  EXPECT_EQ(guard.level().steps_back, 1);
}

TEST(SlowdownGuard, AStragglerIsNotThePlansFault) {
  GuardedJob job({1, 0.001, 0.005}, {.limit_pct = 2}, {1.02, 1.01});
  for (int i = 0; i < 1000; ++i) job.iteration(1.2 * 1.02, 1.2, 1.2);
  EXPECT_TRUE(job.decisions.empty()) << job.decisions.front().reason;
  EXPECT_NEAR(job.guard.lost_s(), 0, 1e-6);
}

TEST(SlowdownGuard, TakesAPlanThatAKnownStragglerMakesSlow) {
  SlowdownGuard guard({.mean_s = 1}, {.limit_pct = 2});
  guard.set_plans({2.0, 1.98}, 1.97);
  EXPECT_FALSE(guard.level().is_full_clocks);
  guard.set_plans({2.0, 1.98});
  EXPECT_TRUE(guard.level().is_full_clocks);
}

TEST(SlowdownGuard, ExcusesIterationsBeforeAStragglerWasRecognised) {
  GuardedJob job(kExact, {.limit_pct = 0}, {1});
  job.iteration(1.2, 1.2);
  EXPECT_NEAR(job.guard.lost_s(), 0.2, 1e-12);
  job.guard.excuse(0.2);
  EXPECT_NEAR(job.guard.lost_s(), 0, 1e-12);
}

/// Iterations as planned, but for every so manieth.
void run_with_stalls(GuardedJob& job, int iterations, int each, double stalled_s) {
  for (int i = 1; i <= iterations; ++i) job.iteration(i % each == 0 ? stalled_s : 1.0, 1.0);
}

TEST(SlowdownGuard, ExcusesAStallOfOneOrTwoIterations) {
  GuardedJob job({1.0, 0.001, 0.002}, {.limit_pct = 2}, {1.0});
  run_with_stalls(job, 20, 10, 9.0);  // the last one stalls
  EXPECT_EQ(job.decisions.size(), 1U) << "the second is not over";
  job.iteration(4.0, 1.0);
  job.iteration(1.01, 1.0);
  ASSERT_EQ(job.decisions.size(), 2U);
  EXPECT_EQ(job.decisions[0].action, GuardAction::excuse_stall);
  EXPECT_THAT(
      job.decisions[0].reason,
      HasSubstr("one iteration took 8 s longer than planned, and the next one 0 ms longer (planned: 1 s each)"));
  EXPECT_THAT(
      job.decisions[1].reason,
      HasSubstr("two iterations took 11 s longer than planned, and the next one 10 ms longer (planned: 1 s each)"));
  EXPECT_EQ(job.decisions[1].level, GuardLevel{});
  EXPECT_LE(job.guard.lost_s(), 0.1);
}

TEST(SlowdownGuard, BlamesNoPlanThatHasNotReachedTheRanks) {
  GuardedJob job({1.0, 0.001, 0.002}, {.limit_pct = 2}, {1.0});
  for (int i = 0; i < 5; ++i) job.iteration(1.0, 1.0);
  job.set_plans({1.05});  // for a straggler of 1.05, which the old plan makes slower still
  for (int i = 0; i < 10; ++i) {
    job.guard.not_in_effect();
    job.iteration(1.12, 1.05, 1.05);
  }
  EXPECT_TRUE(job.decisions.empty());
  EXPECT_GE(job.guard.lost_s(), 0.3) << "the job is late all the same";
  for (int i = 0; i < 10; ++i) job.iteration(1.12, 1.05, 1.05);
  EXPECT_TRUE(job.guard.level().is_full_clocks);
}

TEST(SlowdownGuard, ExcusesNothingThatLasts) {
  GuardedJob job({1.0, 0.001, 0.002}, {.limit_pct = 2}, {1.0});
  for (int i = 0; i < 10; ++i) job.iteration(1.0, 1.0);
  for (int i = 0; i < 3; ++i) job.iteration(3.0, 1.0);
  ASSERT_EQ(job.decisions.size(), 1U);
  EXPECT_EQ(job.decisions[0].action, GuardAction::full_clocks);
  EXPECT_GE(job.guard.lost_s(), 5.5) << "all three count";
}

TEST(SlowdownGuard, ExcusesNothingThatOnlyAPlanOnItsWayAllows) {
  SlowdownGuard guard({1.0, 0.001, 0.002}, {.limit_pct = 2});
  guard.set_plans({1.0});
  double now_s = 0;
  for (const double time_s : {1.0, 1.0, 1.0, 1.0, 4.0}) EXPECT_FALSE(guard.observe(now_s += time_s, time_s));
  guard.set_plans({2.0}, 2);  // for a straggler
  ASSERT_FALSE(guard.level().is_full_clocks);
  EXPECT_FALSE(guard.observe(now_s += 2.4, 2.4, 2));
  const auto decision = guard.observe(now_s += 2.4, 2.4, 2);
  EXPECT_FALSE(decision && decision->action == GuardAction::excuse_stall);
  EXPECT_GE(guard.lost_s(), 3) << "all of it counts";
}

TEST(SlowdownGuard, ExcusesNothingThatRecurs) {
  GuardedJob job({1.0, 0.001, 0.002}, {.limit_pct = 2}, {1.0});
  run_with_stalls(job, 24, 4, 3.0);
  EXPECT_TRUE(job.guard.level().is_full_clocks);
  GuardedJob rare({1.0, 0.001, 0.002}, {.limit_pct = 2}, {1.0});
  run_with_stalls(rare, 2000, 20, 3.0);
  EXPECT_EQ(rare.guard.level(), GuardLevel{});
}

TEST(SlowdownGuard, APlanThatNeverWasSafeHasToWaitForTheLimitToBeEarned) {
  // Four iterations of 1.5 x 1.1 s would be 2.2 s too long; the job may be 1 s late.
  GuardOptions options{.limit_pct = 10, .surprise_factor = 1.5, .overrun_iterations = 1, .hold_s = 0};
  GuardedJob job(kExact, options, {1.1});
  EXPECT_TRUE(job.guard.level().is_full_clocks);
  int iterations = 0;
  for (; iterations < 100 && job.guard.level().is_full_clocks; ++iterations) job.iteration(1, 1);
  EXPECT_EQ(iterations, 12) << "1.2 s of credit at 0.1 s an iteration";
}

TEST(SlowdownGuard, SaysThatItsBaselineIsStale) {
  GuardOptions options{.limit_pct = 0, .overrun_iterations = 0};
  GuardedJob job({1, 0.001, 0.005}, options, {1});
  ASSERT_TRUE(job.guard.level().is_full_clocks) << "nothing is left to react with";
  for (int i = 0; i < 50; ++i) job.iteration(1.1, 1.1);
  ASSERT_EQ(job.decisions.size(), 1);
  EXPECT_EQ(job.decisions[0].action, GuardAction::stale_baseline);
  EXPECT_THAT(job.decisions[0].reason, HasSubstr("8 iterations at full clocks took 10.00 % longer on average"));
  EXPECT_EQ(job.decisions[0].iterations, 8);
  job.guard.set_baseline({1.1, 0.001, 0.005});
  for (int i = 0; i < 50; ++i) job.iteration(1.1, 1.1);
  EXPECT_EQ(job.decisions.size(), 1);
}

/// What an adversary makes of an iteration, knowing everything: how much longer than planned it takes, from 0 (as long
/// as at full clocks) to 1 (all that the guard expects).
using Adversary = std::function<double(const GuardedJob& job, int iteration)>;

struct NamedAdversary {
  const char* name;
  Adversary play;
};

std::vector<NamedAdversary> adversaries() {
  return {
      {"always the worst", [](const GuardedJob&, int) { return 1.0; }},
      {"never", [](const GuardedJob&, int) { return 0.0; }},
      {"just below what the pace shows", [](const GuardedJob&, int i) { return i % 40 == 0 ? 1.0 : 0.0; }},
      {"waits for trust", [](const GuardedJob&, int i) { return i > 3000 ? 1.0 : 0.0; }},
      {"only while it is trusted",
       [](const GuardedJob& job, int) {
         return job.guard.level() == GuardLevel{false, 0} ? 1.0 : 0.0;
       }},
      {"only between the looks",
       [](const GuardedJob& job, int) { return job.running_s() == job.now_reported_s() ? 0.0 : 1.0; }},
      {"in bursts", [](const GuardedJob&, int i) { return (i / 100) % 2 == 0 ? 1.0 : 0.0; }},
      {"only close to the limit",
       [](const GuardedJob& job, int) { return job.guard.lost_s() > job.guard.allowed_s() / 2 ? 1.0 : 0.5; }},
      {"at random", [noise = Noise(7)](const GuardedJob&, int) mutable { return noise.uniform(); }},
  };
}

TEST(SlowdownGuard, TheWholeJobNeverPassesItsLimitWhateverAnAdversaryDoes) {
  for (const double limit_pct : {0.0, 2.0, 10.0}) {
    for (const double hold_s : {0.0, 50.0}) {
      for (const NamedAdversary& adversary : adversaries()) {
        const GuardOptions options{.limit_pct = limit_pct, .hold_s = hold_s};
        const double slowest = 1 + limit_pct / 100;
        GuardedJob job(kExact, options,
                       limit_pct > 0 ? std::vector{slowest, 1 + limit_pct / 200, 1.0} : std::vector{1.0});
        for (int i = 0; i < 10'000; ++i) {
          const double planned_s = job.running_s();
          const double spare_s = (options.surprise_factor - 1) * planned_s;
          const double time_s = planned_s == 0 ? 1 : planned_s + adversary.play(job, i) * spare_s;
          job.iteration(time_s, 1);
          const double allowed_s = job.full_clock_time_s * slowest + options.overrun_iterations;
          ASSERT_LE(job.time_s, allowed_s + 1e-9)
              << adversary.name << ", limit " << limit_pct << " %, hold " << hold_s << " s, iteration " << i;
        }
      }
    }
  }
}

TEST(SlowdownGuard, ReplansDoNotAddUp) {
  // Every few iterations other plans, slow ones and fast ones, and all take as much longer as they may.
  for (const int every : {1, 2, 3, 5, 10, 60}) {
    const GuardOptions options{.limit_pct = 10, .hold_s = 0};
    GuardedJob job(kExact, options, {1.1, 1});
    int plans_run = 0;
    for (int i = 0; i < 5000; ++i) {
      if (i % every == 0) job.set_plans(i / every % 2 == 0 ? std::vector{1.0} : std::vector{1.1, 1.0});
      const double planned_s = job.running_s();
      plans_run += planned_s > 0 ? 1 : 0;
      job.iteration(planned_s == 0 ? 1 : options.surprise_factor * planned_s, 1);
      ASSERT_LE(job.time_s, job.full_clock_time_s * 1.1 + options.overrun_iterations + 1e-9) << every << ", " << i;
    }
    EXPECT_GT(plans_run, 1000) << every;
  }
}

TEST(SlowdownGuard, WorseThanExpectedCostsOneReactionAndNoMore) {
  GuardOptions options{.limit_pct = 2, .hold_s = 0};
  GuardedJob job(kExact, options, {1.02, 1});
  for (int i = 0; i < 5000; ++i) job.iteration((job.running_s() == 0) ? 1 : 3, 1);
  const double reaction_s = (options.reaction_iterations + 1) * 3.0;
  EXPECT_LE(job.time_s, job.full_clock_time_s * 1.02 + options.overrun_iterations + reaction_s);
}

TEST(SlowdownGuard, NoiseIsAllowedForAndNoMore) {
  Noise noise(9);
  const IterationBaseline baseline{1, 0.001, 0.01};
  GuardOptions options{.limit_pct = 2};
  GuardedJob job(baseline, options, {1.02, 1});
  for (int i = 1; i <= 20'000; ++i) {
    job.iteration(((job.running_s() == 0) ? 1 : 1.06) + 0.01 * noise.normal(), 1);
    const double noise_s = 3 * (i * baseline.error_s + std::sqrt(i) * baseline.spread_s);
    // Full clocks are noisy too: they are allowed what they take.
    ASSERT_LE(job.time_s, i * 1.02 + options.overrun_iterations + noise_s + 3 * 0.01 * std::sqrt(i)) << i;
  }
}

TEST(SlowdownGuard, RefusesBadInput) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of([] { SlowdownGuard guard({0, 0, 0}, {}); }), HasSubstr("baseline of 0 s"));
  EXPECT_THAT(error_of([] { SlowdownGuard guard({1, kNan, 0}, {}); }), HasSubstr("baseline"));
  EXPECT_THAT(error_of([] { SlowdownGuard guard({1, 0, 0}, {.limit_pct = -1}); }), HasSubstr("limit_pct -1"));
  EXPECT_THAT(error_of([] { SlowdownGuard guard({1, 0, 0}, {.limit_pct = kNan}); }), HasSubstr("limit_pct"));
  EXPECT_THAT(error_of([] { SlowdownGuard guard({1, 0, 0}, {.window = 1}); }), HasSubstr("window 1"));
  SlowdownGuard guard(kExact, {});
  EXPECT_THAT(error_of([&] { (void)guard.observe(0, 1); }), HasSubstr("before there is a plan"));
  EXPECT_THAT(error_of([&] { guard.set_plans({}); }), HasSubstr("no plans"));
  EXPECT_THAT(error_of([&] { guard.set_plans({1, 1}); }), HasSubstr("plan 1 takes 1 s"));
  EXPECT_THAT(error_of([&] { guard.set_plans({kNan}); }), HasSubstr("plan 0"));
  EXPECT_THAT(error_of([&] { guard.set_plans({1}, 0); }), HasSubstr("full clocks of 0 times the baseline"));
  guard.set_plans({1});
  EXPECT_THAT(error_of([&] { (void)guard.observe(kNan, 1); }), HasSubstr("finite"));
  EXPECT_THAT(error_of([&] { (void)guard.observe(0, 0); }), HasSubstr("above 0"));
  EXPECT_THAT(error_of([&] { (void)guard.observe(0, 1, kNan); }), HasSubstr("finite"));
  EXPECT_THAT(error_of([&] { guard.excuse(-1); }), HasSubstr("excuse"));
  EXPECT_EQ(guard.lost_s(), 0);
}

}  // namespace
}  // namespace lowgear::server

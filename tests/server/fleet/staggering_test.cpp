#include "server/fleet/staggering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"

namespace lowgear::server {

namespace {

PhasedJob phased(double begin_s, double time_s, double most_delay_s, double offset_s = 0) {
  return {.begin_s = begin_s, .time_s = time_s, .most_delay_s = most_delay_s, .offset_s = offset_s};
}

/// How far two times are apart on a circle.
double apart_s(double a_s, double b_s, double period_s) { return std::abs(std::remainder(a_s - b_s, period_s)); }

TEST(SamePeriodGroups, HaveJobsThatCanWaitForTheLongest) {
  const std::vector<PhasedJob> jobs{phased(0, 1.00, 0.05), phased(0, 0.96, 0.05), phased(0, 0.94, 0.05),
                                    phased(0, 0.5, 0.01), phased(0, 0.49, 0.01)};
  EXPECT_EQ(same_period_groups(jobs), (std::vector<std::vector<std::size_t>>{{0, 1}, {2}, {3, 4}}));
  EXPECT_TRUE(same_period_groups({}).empty());
}

TEST(KeepPhases, LetsTheOthersWaitForTheJobThatIsLate) {
  const Phases phases = keep_phases(std::vector{phased(10.0, 1, 0.05), phased(10.02, 1, 0.05)}, 4);
  EXPECT_DOUBLE_EQ(phases.period_s, 1);
  EXPECT_NEAR(phases.error_s[0], 0.02, 1e-9);
  EXPECT_EQ(phases.error_s[1], 0) << "which would else wait for almost a whole iteration";
  EXPECT_NEAR(phases.delay_s[0], 0.005, 1e-9);
  EXPECT_EQ(phases.delay_s[1], 0);
}

TEST(KeepPhases, MakesUpForShorterIterationsAndExceedsNoBound) {
  const Phases phases = keep_phases(std::vector{phased(0, 1, 0), phased(0, 0.98, 0.03), phased(0.5, 0.99, 0.03)}, 10);
  EXPECT_NEAR(phases.delay_s[1], 0.02, 1e-9) << "it is in phase, and stays so";
  EXPECT_EQ(phases.delay_s[2], 0.03) << "half a period late of its turn: as much as it may";
  EXPECT_EQ(phases.delay_s[0], 0) << "it may not be delayed";
}

TEST(KeepPhases, RefusesWhatIsNoJob) {
  EXPECT_THROW((void)keep_phases({}, 1), InputError);
  EXPECT_THROW((void)keep_phases(std::vector{phased(0, 1, 0)}, 0), InputError);
  EXPECT_THROW((void)keep_phases(std::vector{phased(0, 0, 0)}, 1), InputError);
  EXPECT_THROW((void)keep_phases(std::vector{phased(0, 1, -1)}, 1), InputError);
  EXPECT_THROW((void)keep_phases(std::vector{phased(std::numeric_limits<double>::quiet_NaN(), 1, 0)}, 1), InputError);
}

/// Jobs whose iterations take a random time around their mean, and what they have waited.
struct Simulated {
  std::vector<PhasedJob> jobs;
  std::vector<double> waited_s;

  void run(const std::vector<double>& delay_s, int iterations, double jitter, std::mt19937& random) {
    std::normal_distribution<double> noise(1, jitter);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      for (int k = 0; k < iterations; ++k) jobs[i].begin_s += delay_s[i] + jobs[i].time_s * noise(random);
      waited_s[i] += iterations * delay_s[i];
    }
  }
};

/// Random jobs of nearly the same time at random phases come to their offsets and stay there, though every iteration
/// takes another time, and wait in each iteration for no longer than they may.
TEST(KeepPhases, BringsJobsTogetherAndKeepsThem) {
  constexpr int kRounds = 60;
  constexpr int kIterations = 6;
  constexpr double kJitter = 1e-3;
  std::mt19937 random(7);
  for (int fleet = 0; fleet < 50; ++fleet) {
    Simulated simulated;
    const int count = 2 + fleet % 5;
    for (int i = 0; i < count; ++i) {
      const double time_s = std::uniform_real_distribution(0.995, 1.0)(random);
      const double phase_s = std::uniform_real_distribution(0.0, 1.0)(random);
      simulated.jobs.push_back(phased(1.7e9 + phase_s, time_s, 0.02, std::uniform_real_distribution(0.0, 1.0)(random)));
    }
    simulated.waited_s.assign(simulated.jobs.size(), 0);
    double worst_s = 0;
    for (int round = 0; round < kRounds; ++round) {
      const Phases phases = keep_phases(simulated.jobs, kIterations);
      for (std::size_t i = 0; i < phases.delay_s.size(); ++i) {
        ASSERT_GE(phases.delay_s[i], 0);
        ASSERT_LE(phases.delay_s[i], simulated.jobs[i].most_delay_s);
      }
      simulated.run(phases.delay_s, kIterations, kJitter, random);
      if (round < kRounds / 2) continue;
      for (const PhasedJob& each : simulated.jobs) {
        const PhasedJob& first = simulated.jobs.front();
        worst_s = std::max(worst_s, apart_s(each.begin_s - first.begin_s, each.offset_s - first.offset_s, 1));
      }
    }
    EXPECT_LT(worst_s, 0.03) << "fleet " << fleet << ": iterations scatter by 1 ms, six of them by 2.4 ms";
  }
}

/// The same jobs without delays drift through all phases: the test before would fail without what it tests.
TEST(KeepPhases, IsNeededAsJobsDrift) {
  std::mt19937 random(7);
  Simulated simulated{.jobs = {phased(0, 1, 0), phased(0, 0.997, 0)}, .waited_s = {0, 0}};
  double worst_s = 0;
  for (int round = 0; round < 60; ++round) {
    simulated.run({0, 0}, 6, 1e-3, random);
    worst_s = std::max(worst_s, apart_s(simulated.jobs[0].begin_s, simulated.jobs[1].begin_s, 1));
  }
  EXPECT_GT(worst_s, 0.4);
}

constexpr double kHighW = 1000;
constexpr double kLowW = 200;

/// A job that trains: a rank that waits as it is asked to, once the server's answers have reached it.
struct Trained {
  std::string id;
  double time_s = 1;
  double most_delay_s = 0.02;
  double begin_s = 0;
  std::int64_t iteration = 0;
  double longest_wait_s = 0;
  double high_share = 0.5;  ///< of an iteration
  std::string not_delayed{};
  IterationBegins begins{};
  std::optional<protocol::IterationDelays> asked{};

  void train_until(double now_s) {
    while (begin_s + time_s <= now_s) {
      ++iteration;
      const bool waits =
          asked && iteration >= asked->from_iteration && iteration < asked->from_iteration + asked->iterations;
      const double wait_s = waits ? asked->delay_s : 0;
      longest_wait_s = std::max(longest_wait_s, wait_s);
      begin_s += time_s + wait_s;
      protocol::IterationReport report{
          .iteration = iteration, .plan_version = 1, .time_s = time_s, .energy_j = {}, .begin_s = begin_s};
      report.delay_s = wait_s;
      begins.add({.rank = 0, .reports = {report}, .gpu = {}}, now_s);
    }
  }
  [[nodiscard]] StaggeredJob staggered() const {
    StaggeredJob job{.id = id,
                     .plan_version = 1,
                     .cycle = {.time_s = time_s},
                     .waiting_w = kLowW,
                     .pace = begins.pace(1),
                     .most_delay_s = most_delay_s,
                     .not_delayed = not_delayed};
    for (std::size_t part = 0; part < api::kCycleParts; ++part) {
      job.cycle.power_w[part] = static_cast<double>(part) < high_share * api::kCycleParts ? kHighW : kLowW;
    }
    return job;
  }
  [[nodiscard]] double power_w(double at_s) const {
    return std::fmod(at_s - begin_s + 1000 * time_s, time_s) < time_s / 2 ? kHighW : kLowW;
  }
};

class PhaseKeepingTest : public testing::Test {
 protected:
  /// Seconds, of which the server looks at the jobs once each.
  void run(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_s += 1;
      std::vector<StaggeredJob> staggered;
      for (Trained& job : jobs) {
        job.train_until(now_s);
        staggered.push_back(job.staggered());
      }
      keeping.follow(staggered, 60, now_s);
      for (Trained& job : jobs) job.asked = keeping.delays(job.id);
    }
  }
  /// The share of an iteration in which not exactly one of two jobs draws high power.
  [[nodiscard]] double uneven_share() const {
    int uneven = 0;
    for (int step = 0; step < 1000; ++step) {
      const double at_s = now_s + step * 1e-3 * jobs[0].time_s;
      uneven += jobs[0].power_w(at_s) == jobs[1].power_w(at_s) ? 1 : 0;
    }
    return uneven / 1000.0;
  }
  [[nodiscard]] Json shown(const std::string& job) const {
    Json entry = Json::object();
    keeping.describe(job, entry);
    return entry;
  }

  std::vector<Trained> jobs;
  PhaseKeeping keeping;
  double now_s = 1.7e9;
};

TEST_F(PhaseKeepingTest, LetsOneJobWorkWhileTheOtherWaitsThoughTheirTimesDiffer) {
  jobs = {{.id = "a", .time_s = 0.5, .begin_s = now_s}, {.id = "b", .time_s = 0.497, .begin_s = now_s}};
  run(20);
  jobs[0].begin_s = jobs[1].begin_s;
  EXPECT_GT(uneven_share(), 0.9) << "together";
  run(90);
  double worst_share = 0;
  double mean_share = 0;
  for (int second = 0; second < 60; ++second) {
    run(1);
    worst_share = std::max(worst_share, uneven_share());
    mean_share += uneven_share() / 60;
  }
  EXPECT_LT(worst_share, 0.2);
  EXPECT_LT(mean_share, 0.1);
  for (const Trained& job : jobs) EXPECT_LE(job.longest_wait_s, job.most_delay_s);
  EXPECT_TRUE(shown("a")["left_out"].is_null());
  EXPECT_NEAR(shown("b")["period_s"].get<double>(), 0.5, 1e-6);
}

TEST_F(PhaseKeepingTest, KeepsItsOffsetsWhicheverJobIsTheSlower) {
  jobs = {{.id = "a", .time_s = 1, .begin_s = now_s, .high_share = 0.25},
          {.id = "b", .time_s = 0.999, .begin_s = now_s, .high_share = 0.25}};
  run(20);
  const auto offset_s = [&] { return shown("b")["delay_s"].get<double>() - shown("a")["delay_s"].get<double>(); };
  const double first_s = offset_s();
  EXPECT_GT(std::abs(first_s), 0.2);
  for (int turn = 0; turn < 3; ++turn) {
    std::swap(jobs[0].time_s, jobs[1].time_s);
    run(20);
    EXPECT_DOUBLE_EQ(offset_s(), first_s);
  }
}

TEST_F(PhaseKeepingTest, LeavesJobsOutThatCannotKeepThePeriod) {
  jobs = {{.id = "a", .time_s = 1, .begin_s = now_s},
          {.id = "b", .time_s = 0.5, .begin_s = now_s},
          {.id = "c", .time_s = 0.95, .begin_s = now_s}};
  run(40);
  for (const Trained& job : jobs) {
    EXPECT_EQ(job.longest_wait_s, 0);
    EXPECT_NE(shown(job.id)["left_out"].get<std::string>().find("no other job"), std::string::npos);
  }
  EXPECT_FALSE(keeping.acts());
}

TEST_F(PhaseKeepingTest, NeverDelaysJobsWithoutSlack) {
  jobs = {{.id = "a", .time_s = 1, .most_delay_s = 0, .begin_s = now_s},
          {.id = "b", .time_s = 1, .most_delay_s = 0, .begin_s = now_s + 0.1}};
  run(40);
  EXPECT_EQ(jobs[0].longest_wait_s, 0);
  EXPECT_EQ(jobs[1].longest_wait_s, 0);
}

TEST_F(PhaseKeepingTest, SaysWhyAJobNeverWaitsAndLetsTheOtherWaitForIt) {
  jobs = {{.id = "a", .time_s = 1, .most_delay_s = 0, .begin_s = now_s},
          {.id = "b", .time_s = 0.99, .most_delay_s = 0.05, .begin_s = now_s}};
  jobs[0].not_delayed = "it calls no lowgear_stagger";
  run(80);
  EXPECT_EQ(jobs[0].longest_wait_s, 0);
  EXPECT_GT(jobs[1].longest_wait_s, 0);
  EXPECT_EQ(shown("a")["not_delayed"], "it calls no lowgear_stagger");
  EXPECT_TRUE(shown("a")["left_out"].is_null());
  EXPECT_TRUE(shown("b")["not_delayed"].is_null());
}

TEST_F(PhaseKeepingTest, NamesJobsThatAreSilent) {
  jobs = {{.id = "a", .time_s = 1, .begin_s = now_s}, {.id = "b", .time_s = 1, .begin_s = now_s}};
  run(3);
  EXPECT_EQ(shown("a")["left_out"], "when its iterations begin is not known yet");
  run(30);
  EXPECT_TRUE(shown("a")["left_out"].is_null());
  jobs[1].begin_s += 1e6;  // it begins nothing any more
  run(30);
  EXPECT_FALSE(shown("a")["left_out"].is_null());
  EXPECT_FALSE(keeping.delays("a"));
}

TEST_F(PhaseKeepingTest, ForgetsJobsThatAreNotNamed) {
  jobs = {{.id = "a", .time_s = 1, .begin_s = now_s}, {.id = "b", .time_s = 1, .begin_s = now_s}};
  run(30);
  ASSERT_TRUE(keeping.acts());
  keeping.follow({}, 60, now_s);
  EXPECT_FALSE(keeping.acts());
  EXPECT_TRUE(shown("a").empty());
}

}  // namespace

}  // namespace lowgear::server

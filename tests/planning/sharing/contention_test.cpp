#include "planning/sharing/contention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::sharing {

namespace {

/// Processor sharing with one customer per job by mean value analysis (Reiser and Lavenberg 1980): the independent
/// oracle of the chain for full widths. `set` are the bits of the jobs that are there.
double queued(const std::vector<Demand>& jobs, std::size_t set, std::size_t job);

double residence(const std::vector<Demand>& jobs, std::size_t set, std::size_t job) {
  double others = 0;
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    if (other != job && ((set >> other) & 1U) != 0) others += queued(jobs, set ^ (std::size_t{1} << job), other);
  }
  return jobs[job].busy * (1 + others);
}

double queued(const std::vector<Demand>& jobs, std::size_t set, std::size_t job) {
  const double time = residence(jobs, set, job);
  return time / (1 - jobs[job].busy + time);
}

TEST(SharedSlowdowns, AreThoseOfMeanValueAnalysisForFullWidths) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> share(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Demand> jobs(2 + static_cast<std::size_t>(round) % 3);
    for (Demand& job : jobs) job.busy = share(random);
    const std::size_t all = (std::size_t{1} << jobs.size()) - 1;
    const std::vector<Slowdown> slowdowns = shared_slowdowns(jobs, 0);
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const double expected = 1 - jobs[job].busy + residence(jobs, all, job);
      EXPECT_NEAR(slowdowns[job].predicted, expected, 1e-5);
      EXPECT_LE(slowdowns[job].low, slowdowns[job].predicted);
      EXPECT_GE(slowdowns[job].high, slowdowns[job].predicted);
    }
  }
}

TEST(SharedSlowdowns, AreKnownForSimpleCases) {
  const auto predicted = [](const std::vector<Demand>& jobs) { return shared_slowdowns(jobs, 0).front().predicted; };
  EXPECT_DOUBLE_EQ(predicted({{0.7, 1}}), 1);
  EXPECT_NEAR(predicted({{0.3, 1}, {0.3, 1}}), 1.09, 1e-5);  // 1 + busy^2
  EXPECT_NEAR(predicted({{1, 1}, {1, 1}}), 2, 1e-5);
  EXPECT_NEAR(predicted({{1, 1}, {1, 1}, {1, 1}, {1, 1}}), 4, 1e-4);
  EXPECT_NEAR(predicted({{1, 0.5}, {1, 0.5}}), 1, 1e-9);
  EXPECT_NEAR(predicted({{1, 0.75}, {1, 0.75}}), 1.5, 1e-5);
  EXPECT_NEAR(predicted({{1, 1}, {0, 1}}), 1, 1e-6);
}

TEST(SharedSlowdowns, AreBoundedByTheOtherJobsWork) {
  // Kernels that fill the GPU: a light job can take no more than its own work from a busy one.
  const std::vector<Slowdown> slowdowns = shared_slowdowns(std::vector<Demand>{{1, 1}, {0.05, 1}}, 0);
  EXPECT_NEAR(slowdowns[0].high, 1 / 0.95, 1e-9);
  EXPECT_NEAR(slowdowns[1].high, 1.05, 1e-9);
  // Two that need more than there is are slower in any case.
  const std::vector<Slowdown> full = shared_slowdowns(std::vector<Demand>{{0.9, 1}, {0.9, 1}}, 0);
  EXPECT_GT(full[0].low, 1.5);
  EXPECT_NEAR(full[0].high, 1.9, 1e-9);
}

TEST(SharedSlowdowns, HaveAMarginOnlyWhereJobsShare) {
  const std::vector<Demand> two = {{0.5, 0.5}, {0.5, 0.5}};
  EXPECT_DOUBLE_EQ(shared_slowdowns(two, 0.25).front().high, 1.25);
  EXPECT_DOUBLE_EQ(shared_slowdowns(two, 0.25).front().predicted, 1);
  EXPECT_DOUBLE_EQ(shared_slowdowns(std::vector<Demand>{{0.5, 1}}, 0.25).front().high, 1);
}

TEST(SharedSlowdowns, RefuseWhatIsOutOfRange) {
  const auto refused = [](const std::vector<Demand>& jobs, double margin) {
    EXPECT_THROW(static_cast<void>(shared_slowdowns(jobs, margin)), InputError);
  };
  refused(std::vector<Demand>(5, {0.1, 1}), 0);
  refused({{1.1, 1}}, 0);
  refused({{-0.1, 1}}, 0);
  refused({{0.5, 0}}, 0);
  refused({{0.5, 1.5}}, 0);
  refused({{std::nan(""), 1}}, 0);
  refused({{0.5, 1}}, -0.1);
  refused({{0.5, 1}}, std::nan(""));
}

using ::testing::HasSubstr;

MonitoredLoad no_measurement(const std::string& file) { throw InputError("read " + file); }

JobTable read(const std::string& csv) { return read_job_table(csv, "jobs.csv", no_measurement); }

std::string error_of(const std::string& csv) {
  return lowgear::error_of([&] { static_cast<void>(read(csv)); });
}

TEST(JobTable, IsReadByColumnName) {
  const JobTable table = read(
      "memory_gib,job,busy_pct,power_w,gpus,sm_active_pct,iteration_s\n"
      "12.5,a,40,210,2,20,0.5\n"
      "8,b,100,300,,,\n");
  ASSERT_EQ(table.jobs.size(), 2U);
  EXPECT_EQ(table.jobs[0].name, "a");
  EXPECT_EQ(table.jobs[0].gpus, 2);
  EXPECT_DOUBLE_EQ(table.jobs[0].busy, 0.4);
  EXPECT_DOUBLE_EQ(*table.jobs[0].sm_active, 0.2);
  EXPECT_DOUBLE_EQ(table.jobs[0].memory_gib, 12.5);
  EXPECT_DOUBLE_EQ(*table.jobs[0].iteration_s, 0.5);
  EXPECT_EQ(table.jobs[1].gpus, 1);
  EXPECT_FALSE(table.jobs[1].sm_active.has_value());
  EXPECT_FALSE(table.simulated);
}

TEST(JobTable, TakesWhatWasMonitored) {
  const auto measured = [](const std::string& file) {
    EXPECT_EQ(file, "b.json");
    return MonitoredLoad{.gpus = 2, .busy = 0.25, .power_w = 180, .simulated = true};
  };
  const JobTable table =
      read_job_table("job,memory_gib,measurement,busy_pct,power_w\na,1,,50,200\nb,2,b.json,,\n", "jobs.csv", measured);
  EXPECT_DOUBLE_EQ(table.jobs.at(0).busy, 0.5);
  EXPECT_EQ(table.jobs.at(1).gpus, 2);
  EXPECT_DOUBLE_EQ(table.jobs.at(1).busy, 0.25);
  EXPECT_DOUBLE_EQ(table.jobs.at(1).power_w, 180);
  EXPECT_TRUE(table.simulated);
}

TEST(JobTable, NamesTheCellThatIsWrong) {
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\na,1,101,200\n"),
              HasSubstr("jobs.csv:2:5: busy_pct must be from 0 to 100"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\na,-1,10,200\n"), HasSubstr("memory_gib must be from 0 to"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\na,x,10,200\n"), HasSubstr("jobs.csv:2:3"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w,gpus\na,1,10,200,1.5\n"),
              HasSubstr("jobs.csv:2:12: gpus: expected a whole number"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w,gpus\na,1,10,200,0\n"), HasSubstr("gpus must be from 1 to 64"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\na,1,10,200\na,1,10,200\n"),
              HasSubstr("two ranks of a job never share one"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w,sm_active_pct\na,1,10,200,11\n"),
              HasSubstr("SMs are active 11 %"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\n,1,10,200\n"), HasSubstr("is not a valid job name"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pc,power_w\na,1,10,200\n"), HasSubstr("did you mean \"busy_pct\"?"));
  EXPECT_THAT(error_of("job,busy_pct,power_w\na,10,200\n"), HasSubstr("memory_gib"));
  EXPECT_THAT(error_of("job,memory_gib\na,10\n"), HasSubstr("busy_pct"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\n"), HasSubstr("holds no job"));
  EXPECT_NE(error_of(""), "no error");
  EXPECT_THAT(error_of("job,memory_gib,measurement,power_w\na,1,f.json,200\n"),
              HasSubstr("follows from the measurement"));
  EXPECT_THAT(error_of("job,memory_gib,measurement\na,1,f.json\n"), HasSubstr("read f.json"));
}

TEST(MonitoredLoad, IsThatOfTheBusiestGpu) {
  const MonitoredLoad load = read_monitored_load(
      R"({"simulated": true, "gpus": [{"mean_utilisation_percent": 20, "mean_power_w": 100},
          {"mean_utilisation_percent": 40.5, "mean_power_w": 200}]})",
      "a.json");
  EXPECT_EQ(load.gpus, 2);
  EXPECT_DOUBLE_EQ(load.busy, 0.405);
  EXPECT_DOUBLE_EQ(load.power_w, 150);
  EXPECT_TRUE(load.simulated);
}

TEST(MonitoredLoad, RefusesOtherDocuments) {
  const auto refused = [](const std::string& json) {
    EXPECT_THROW(static_cast<void>(read_monitored_load(json, "a.json")), InputError) << json;
  };
  refused("");
  refused("[]");
  refused(R"({"gpus": []})");
  refused(R"({"gpus": [{}]})");
  refused(R"({"gpus": [{"mean_utilisation_percent": 20}]})");
  refused(R"({"gpus": [{"mean_utilisation_percent": 120, "mean_power_w": 1}]})");
  refused(R"({"gpus": [{"mean_utilisation_percent": null, "mean_power_w": 1}]})");
}

}  // namespace

}  // namespace lowgear::sharing

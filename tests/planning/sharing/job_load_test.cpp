#include "planning/sharing/job_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::sharing {
namespace {

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
              HasSubstr("jobs.csv:2:5: busy_pct is 0 to 100"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\na,-1,10,200\n"), HasSubstr("memory_gib is 0 to"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\na,x,10,200\n"), HasSubstr("jobs.csv:2:3"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w,gpus\na,1,10,200,1.5\n"),
              HasSubstr("jobs.csv:2:12: gpus: expected a whole number"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w,gpus\na,1,10,200,0\n"), HasSubstr("gpus is 1 to 64"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\na,1,10,200\na,1,10,200\n"),
              HasSubstr("two ranks of a job never share one"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w,sm_active_pct\na,1,10,200,11\n"),
              HasSubstr("SMs are active 11 %"));
  EXPECT_THAT(error_of("job,memory_gib,busy_pct,power_w\n,1,10,200\n"), HasSubstr("no name of a job"));
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

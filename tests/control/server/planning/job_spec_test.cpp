#include "control/server/planning/job_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear {
namespace {

using Members = std::vector<std::pair<std::string, Json>>;

using testing::HasSubstr;

Json job() {
  return Json::parse(R"({"run":"r","model":"m","gpu":"g","parallel":{"pp":2},"schedule":"1f1b","microbatches":4})");
}

JobSpec read(const Json& body) { return read_job_spec(JsonView(body, "body")); }

std::string refusal(const std::string& member, const Json& value) {
  Json body = job();
  body[member] = value;
  return error_of([&] { (void)make_schedule(read(body)); });
}

TEST(JobSpec, HasDefaults) {
  const JobSpec spec = read(job());
  EXPECT_EQ(spec.name, "r");
  EXPECT_EQ(spec.partition, "uniform");
  EXPECT_EQ(spec.parallel, (JobParallel{.pp = 2, .dp = 1, .tp = 1, .chunks = 1}));
  EXPECT_EQ(spec.guard_pct, 2);
  ASSERT_TRUE(spec.profiling);
  EXPECT_EQ(*spec.profiling, JobProfiling{});
}

TEST(JobSpec, ReadsBackWhatItWrites) {
  Json body = job();
  body["profile"] = nullptr;
  body["schedule"] = {{"csv", "0F0,,,0B0\n"}};
  body["switch_latency_ms"] = 12.5;
  const JobSpec spec = read(body);
  EXPECT_FALSE(spec.profiling);
  EXPECT_EQ(read(to_json(spec)), spec);
}

TEST(JobSpec, NamesWhatIsWrong) {
  EXPECT_THAT(refusal("microbatches", 0), HasSubstr("$.microbatches"));
  EXPECT_THAT(refusal("parallel", {{"pp", 0}}), HasSubstr("$.parallel.pp"));
  EXPECT_THAT(refusal("parallel", {{"pp", 1000}, {"dp", 1000}}), HasSubstr("100000 ranks"));
  EXPECT_THAT(refusal("parallel", {{"tp", 1000}, {"dp", 1000}}), HasSubstr("100000 ranks"));
  EXPECT_THAT(refusal("parallel", {{"pp", 100'000}, {"chunks", 2}}), HasSubstr("virtual stages"));
  EXPECT_THAT(refusal("microbatch", 3), HasSubstr("did you mean \"microbatches\""));
  EXPECT_THAT(refusal("slowdown_pct", -1), HasSubstr("$.slowdown_pct"));
  EXPECT_THAT(refusal("profile", {{"min_mhz", 900}, {"max_mhz", 800}}), HasSubstr("min_mhz is above max_mhz"));
  EXPECT_THAT(refusal("run", std::string(201, 'x')), HasSubstr("$.run"));
  EXPECT_THAT(refusal("run", "a\nb"), HasSubstr("$.run"));
  EXPECT_THAT(refusal("schedule", "none such"), HasSubstr("none such"));
  EXPECT_THAT(refusal("schedule", {{"csv", std::string(5 << 20, ',')}}), HasSubstr("bytes"));
}

TEST(JobSpec, BoundsTheUnitsOfASchedule) {
  Json body = job();
  body["parallel"] = {{"pp", 1000}};
  body["microbatches"] = 501;
  EXPECT_THAT(error_of([&] { (void)make_schedule(read(body)); }), HasSubstr("1002000 units"));
}

TEST(JobSpec, WantsAScheduleOfItsSizes) {
  Json body = job();
  body["schedule"] = {{"csv", "0F0,0B0\n"}};
  EXPECT_THAT(error_of([&] { (void)make_schedule(read(body)); }), HasSubstr("the schedule has 1 ranks"));
}

TEST(JobSpec, SharesProfilesWithJobsOfTheSameModelPartitionAndGpu) {
  const std::string key = read(job()).profile_key(false);
  for (const auto& [member, value] : Members{{"run", "other"}, {"schedule", "gpipe"}, {"microbatches", 9}}) {
    Json body = job();
    body[member] = value;
    EXPECT_EQ(read(body).profile_key(false), key) << member;
  }
  for (const auto& [member, value] :
       Members{{"model", "x"}, {"gpu", "x"}, {"partition", "x"}, {"microbatch_size", 2}, {"parallel", {{"pp", 3}}}}) {
    Json body = job();
    body[member] = value;
    EXPECT_NE(read(body).profile_key(false), key) << member;
  }
  EXPECT_NE(read(job()).profile_key(true), key);
}

TEST(JobSpec, NamesTheFirstDifference) {
  const JobSpec one = read(job());
  JobSpec other = one;
  EXPECT_EQ(first_difference(one, other), "");
  other.profiling->clocks = 9;
  EXPECT_EQ(first_difference(one, other), "profile");
}

TEST(RankSpec, RefusesARankThatHasNoPlace) {
  const JobParallel parallel{.pp = 2, .dp = 3, .tp = 1, .chunks = 1};
  const Json good = Json::parse(R"({"rank":5,"pp_rank":1,"dp_rank":2,"tp_rank":0,"instance":"i","host":"h",
                                    "clocks_mhz":[900,1410,900]})");
  const auto read_rank = [&](const Json& body) { return read_rank_spec(JsonView(body, "body"), parallel); };
  EXPECT_EQ(read_rank(good).clocks_mhz, (std::vector<int>{1410, 900}));
  for (const auto& [member, value] : Members{{"rank", 6},
                                             {"rank", -1},
                                             {"pp_rank", 2},
                                             {"dp_rank", 3},
                                             {"tp_rank", 1},
                                             {"host", ""},
                                             {"clocks_mhz", {0}},
                                             {"power_limit_w", 0},
                                             {"gpu", 3},
                                             {"unknown", 1},
                                             {"clocks_mhz", "all"},
                                             {"instance", nullptr}}) {
    Json body = good;
    body[member] = value;
    EXPECT_THROW((void)read_rank(body), InputError) << member << value;
  }
  Json without_clocks = good;
  without_clocks.erase("clocks_mhz");
  without_clocks["follows_plans"] = true;
  EXPECT_THAT(error_of([&] { (void)read_rank(without_clocks); }), HasSubstr("clocks_mhz"));
}

}  // namespace
}  // namespace lowgear

#include "protocol/job_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "protocol/random_document.h"

namespace lowgear::protocol {
namespace {

using Members = std::vector<std::pair<std::string, Json>>;

using testing::HasSubstr;

Json job() {
  return Json::parse(R"({"run":"r","model":"m","gpu":"g","parallel":{"pp":2},"schedule":"1f1b","microbatches":4})");
}

JobSpec read_spec(const Json& body) { return read_job_spec(JsonView(body, "body")); }

std::string refusal(const std::string& member, const Json& value) {
  Json body = job();
  body[member] = value;
  return error_of([&] { (void)read_spec(body); });
}

TEST(JobSpec, HasDefaults) {
  const JobSpec spec = read_spec(job());
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
  body["user"] = "ada";
  const JobSpec spec = read_spec(body);
  EXPECT_FALSE(spec.profiling);
  EXPECT_EQ(spec.user, "ada");
  EXPECT_EQ(read_spec(to_json(spec)), spec);
}

TEST(JobSpec, ReadsBackThePolicyEnvPipe) {
  Json body = job();
  body["policy"] = "envpipe";
  EXPECT_EQ(read_spec(body).envpipe, JobEnvPipe{});
  EXPECT_EQ(read_spec(to_json(read_spec(body))), read_spec(body));
  body["envpipe"] = {{"type", "uniform"}, {"reconfig", "greedy"}, {"threshold_scale", 8}, {"transfer_ms", 0.5},
                     {"start_mhz", 1350}, {"lowest_mhz", 810},    {"raise_step_mhz", 45}};
  body["schedule"] = "envpipe";
  body["early_forwards"] = {2, 0};
  const JobSpec spec = read_spec(body);
  EXPECT_EQ(spec.envpipe->reconfig, "greedy");
  EXPECT_EQ(spec.envpipe->raise_step_mhz, 45);
  EXPECT_EQ(spec.early_forwards, (std::vector<int>{2, 0}));
  EXPECT_EQ(read_spec(to_json(spec)), spec);
  body["policy"] = "lowgear";
  EXPECT_THAT(error_of([&] { (void)read_spec(body); }), HasSubstr("is of another policy"));
  EXPECT_FALSE(to_json(read_spec(job())).contains("policy")) << "servers before it refuse the member";
}

TEST(JobSpec, KeepsThePolicyThatItStatesAndNoOther) {
  EXPECT_FALSE(read_spec(job()).policy);
  for (const std::string_view policy : kJobPolicies) {
    Json body = job();
    body["policy"] = policy;
    const JobSpec spec = read_spec(body);
    EXPECT_EQ(spec.policy, find_job_policy(policy));
    EXPECT_EQ(spec.envpipe.has_value(), policy == "envpipe");
    EXPECT_EQ(read_spec(to_json(spec)), spec);
    Json unstated = job();
    if (policy == "steps") unstated["profile"] = nullptr;
    EXPECT_EQ(first_difference(spec, read_spec(unstated)), "policy");
  }
  EXPECT_THAT(refusal("policy", "zeus"), HasSubstr("use one of lowgear, perseus, envpipe, steps"));
  EXPECT_THAT(refusal("policy", 1), HasSubstr("$.policy"));
}

TEST(JobSpec, TriesNoClocksOutWhereTheJobPlansItsOwnSteps) {
  Json body = job();
  body["policy"] = "steps";
  EXPECT_FALSE(read_spec(body).profiling);
  body["profile"] = nullptr;
  EXPECT_FALSE(read_spec(body).profiling);
  body["profile"] = {{"clocks", 6}};
  EXPECT_THAT(error_of([&] { (void)read_spec(body); }), HasSubstr("$.profile: the server tries no clocks out"));
}

TEST(JobSpec, HasNeitherSlowdownNorGuardWhereTheJobPlansItsOwnSteps) {
  for (const char* const member : {"slowdown_pct", "guard_pct"}) {
    Json body = job();
    body["policy"] = "steps";
    body[member] = 5;
    EXPECT_THAT(error_of([&] { (void)read_spec(body); }),
                HasSubstr(std::string("$.") + member + ": the server does not plan a job that plans its own steps"));
    body["policy"] = "lowgear";
    EXPECT_NO_THROW((void)read_spec(body));
  }
}

TEST(JobSpec, HasOneFormOnTheWire) {
  const std::string_view text =
      R"({"run":"slurm-4711","name":"llama-1b","framework":"lowgear","model":"llama 24x2048","partition":"uniform",)"
      R"("gpu":"NVIDIA A100","parallel":{"pp":4,"dp":1,"tp":1,"chunks":1},"schedule":"1f1b","microbatches":8,)"
      R"("microbatch_size":2,"slowdown_pct":0.0,"guard_pct":2.0,"switch_latency_ms":25.0,"profile":{"clocks":6,)"
      R"("iterations":5,"settle_iterations":0,"min_mhz":null,"max_mhz":null,"allowance_pct":2.0,)"
      R"("allowance_iterations":500}})";
  const Json body = Json::parse(text);
  EXPECT_EQ(to_json(read_spec(body)).dump(), text);
}

JobSpec random_spec(RandomDocument& random) {
  JobSpec spec;
  for (std::string* name : {&spec.run, &spec.name, &spec.framework, &spec.model, &spec.partition, &spec.gpu}) {
    *name = random.name();
  }
  spec.parallel = {
      .pp = random.whole(1, 9), .dp = random.whole(1, 9), .tp = random.whole(1, 9), .chunks = random.whole(1, 9)};
  spec.schedule_is_csv = random.coin();
  spec.schedule = random.name();
  spec.microbatches = random.whole(1, 1'000'000);
  spec.microbatch_size = random.whole(1, 1 << 20);
  spec.slowdown_pct = random.number(0, 1'000);
  spec.guard_pct = random.number(0, 1'000);
  spec.switch_latency_ms = random.number(0, 10'000);
  if (random.coin()) spec.user = random.name();
  if (random.coin()) {
    spec.profiling = {.clocks = random.whole(4, 1'000),
                      .iterations = random.whole(1, 10'000),
                      .settle_iterations = random.whole(0, 1'000),
                      .min_mhz = random.maybe(random.whole(1, 900)),
                      .max_mhz = random.maybe(random.whole(900, 20'000)),
                      .allowance_pct = random.number(0, 1'000),
                      .allowance_iterations = random.whole(1, 1'000'000)};
  }
  return spec;
}

TEST(JobSpec, ReadsBackAnythingThatItWrites) {
  RandomDocument random;
  for (int round = 0; round < kRoundTrips; ++round) {
    const JobSpec spec = random_spec(random);
    EXPECT_EQ(read_spec(Json::parse(to_json(spec).dump())), spec) << to_json(spec);
  }
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
  EXPECT_THAT(refusal("gpu", std::string(97, 'x')), HasSubstr("$.gpu")) << "no plan could be read that names it";
  EXPECT_THAT(refusal("microbatches", 1'000'001), HasSubstr("$.microbatches")) << "likewise";
  EXPECT_THAT(refusal("run", "a\nb"), HasSubstr("$.run"));
  EXPECT_THAT(refusal("user", "a\nb"), HasSubstr("$.user"));
  EXPECT_THAT(refusal("early_forwards", {1, 0}), HasSubstr("is of the schedule envpipe alone"));
  EXPECT_THAT(refusal("schedule", {{"csv", std::string(5 << 20, ',')}}), HasSubstr("bytes"));
}

TEST(JobSpec, SharesProfilesWithJobsOfTheSameModelPartitionAndGpu) {
  const std::string key = read_spec(job()).profile_key(false);
  for (const auto& [member, value] : Members{{"run", "other"}, {"schedule", "gpipe"}, {"microbatches", 9}}) {
    Json body = job();
    body[member] = value;
    EXPECT_EQ(read_spec(body).profile_key(false), key) << member;
  }
  for (const auto& [member, value] :
       Members{{"model", "x"}, {"gpu", "x"}, {"partition", "x"}, {"microbatch_size", 2}, {"parallel", {{"pp", 3}}}}) {
    Json body = job();
    body[member] = value;
    EXPECT_NE(read_spec(body).profile_key(false), key) << member;
  }
  EXPECT_NE(read_spec(job()).profile_key(true), key);
}

TEST(JobSpec, NamesTheFirstDifference) {
  const JobSpec one = read_spec(job());
  JobSpec other = one;
  EXPECT_EQ(first_difference(one, other), "");
  other.profiling->clocks = 9;
  EXPECT_EQ(first_difference(one, other), "profile");
  other = one;
  other.user = "ada";
  EXPECT_EQ(first_difference(one, other), "user");
  EXPECT_EQ(first_difference(other, one), "user");
  other = one;
  other.envpipe.emplace();
  EXPECT_EQ(first_difference(one, other), first_difference(other, one));
}

}  // namespace
}  // namespace lowgear::protocol

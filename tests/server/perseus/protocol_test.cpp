#include "server/perseus/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "server/perseus/settings.h"
#include "server/perseus/test_support.h"

namespace lowgear::server::perseus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string job_body(std::string_view key, const Json& value) {
  Json body = to_json(test_job({}));
  body["job_id"] = "";
  body[std::string(key)] = value;
  return body.dump();
}

std::string rank_body(std::string_view key, const Json& value) {
  Json body = to_json(test_rank({}, 0));
  body["job_id"] = "a+b";
  body[std::string(key)] = value;
  return body.dump();
}

std::string result_body(std::string_view key, const Json& value) {
  Json body = to_json(test_result(test_rank({}, 1), std::vector<int>(26, 1410)));
  body[std::string(key)] = value;
  return body.dump();
}

TEST(PerseusProtocol, AJobIsReadAsTheArtifactSendsIt) {
  const JobInfo job = read_perseus_job(R"({"job_id": "", "pp_degree": 4, "dp_degree": 2, "tp_degree": 1,
      "world_size": 8, "framework": "merak", "model_name": "gpt3-xl", "partition_method": "custom",
      "microbatch_size": 8, "num_microbatches": 128})");
  EXPECT_EQ(job, (JobInfo{4, 2, 1, 8, "merak", "gpt3-xl", "custom", 8, 128, ""}));
  EXPECT_EQ(read_perseus_job(to_json(job).dump()), job);
}

TEST(PerseusProtocol, AJobIsReadAsZeusSendsIt) {
  const JobInfo job = read_perseus_job(
      R"({"job_id": "", "pp_degree": 2, "dp_degree": 1, "tp_degree": 1, "world_size": 2, "job_metadata": null})");
  EXPECT_EQ(job.world_size, 2);
  EXPECT_EQ(job.num_microbatches, 0);
}

TEST(PerseusProtocol, AWrongJobIsRefusedAtThePlace) {
  EXPECT_EQ(error_of([] { return read_perseus_job(job_body("world_size", 3)); }),
            "register_job: $.world_size: 3 is not pp x dp x tp = 2");
  EXPECT_THAT(error_of([] { return read_perseus_job(job_body("pp_degree", 0)); }), HasSubstr("$.pp_degree"));
  EXPECT_THAT(error_of([] { return read_perseus_job(job_body("pp_degree", 65537)); }), HasSubstr("$.pp_degree"));
  EXPECT_THAT(error_of([] { return read_perseus_job(job_body("job_id", "mine")); }), HasSubstr("$.job_id"));
  EXPECT_THAT(error_of([] { return read_perseus_job(job_body("model_name", std::string(300, 'a'))); }),
              HasSubstr("$.model_name"));
  EXPECT_THAT(error_of([] { return read_perseus_job(job_body("num_microbatches", "8")); }),
              HasSubstr("$.num_microbatches"));
  EXPECT_THAT(error_of([] { return read_perseus_job("{"); }), HasSubstr("register_job:1:"));
}

TEST(PerseusProtocol, DegreesThatWouldOverflowAreRefused) {
  const std::string body = R"({"pp_degree": 65536, "dp_degree": 65536, "tp_degree": 65536, "world_size": 1})";
  EXPECT_THAT(error_of([&] { return read_perseus_job(body); }), HasSubstr("281474976710656"));
}

TEST(PerseusProtocol, PowerStatesAreSortedAndHaveToBeDistinct) {
  const RankRegistration rank = read_perseus_rank(rank_body("power_state_range", {900, 1410, 1200}), Client::artifact);
  EXPECT_EQ(rank.job_id, "a+b");
  EXPECT_THAT(rank.rank.power_states, ElementsAre(1410, 1200, 900));
  const auto refused = [](const Json& states) {
    return error_of([&] { return read_perseus_rank(rank_body("power_state_range", states), Client::artifact); });
  };
  EXPECT_THAT(refused({900, 1410, 900}), HasSubstr("900 occurs twice"));
  EXPECT_THAT(refused({900, -1}), HasSubstr("$.power_state_range[1]"));
  EXPECT_THAT(refused({900, 0.5}), HasSubstr("$.power_state_range[1]"));
  EXPECT_THAT(refused(Json::array()), HasSubstr("no power states"));
}

TEST(PerseusProtocol, AMillionPowerStatesAreRefused) {
  Json states = Json::array();
  for (int i = 1; i <= 1'000'000; ++i) states.push_back(i);
  EXPECT_THAT(error_of([&] { return read_perseus_rank(rank_body("power_state_range", states), Client::artifact); }),
              HasSubstr("1000000 elements are too many"));
}

TEST(PerseusProtocol, ARankSaysInstructionsThatExist) {
  EXPECT_EQ(error_of([] {
              return read_perseus_rank(rank_body("pipe_schedule", {"forward", "sideways"}), Client::artifact);
            }),
            "register_rank: $.pipe_schedule[1]: unknown instruction \"sideways\"; instructions are load, forward, "
            "backward, p2p, ...");
  const RankInfo rank = test_rank({}, 1);
  Json json = to_json(rank);
  json["job_id"] = "";
  EXPECT_EQ(read_perseus_rank(json.dump(), Client::artifact).rank, rank);
}

TEST(PerseusProtocol, ZeusRanksSendClocksAlone) {
  const RankInfo rank =
      read_perseus_rank(
          R"({"rank": 1, "dp_rank": 0, "pp_rank": 1, "tp_rank": 0, "available_frequencies": [810, 1410]})",
          Client::zeus)
          .rank;
  EXPECT_THAT(rank.power_states, ElementsAre(1410, 810));
  EXPECT_TRUE(rank.pipe_schedule.empty());
}

TEST(PerseusProtocol, AResultKeepsEveryNumber) {
  const Result result = test_result(test_rank({}, 1), std::vector<int>(26, 1140), 0.5, false);
  EXPECT_EQ(read_perseus_result(to_json(result).dump()), result);
  EXPECT_TRUE(result.energy_j.at(Instruction::forward).front().empty());
}

TEST(PerseusProtocol, ARankMayMeasureIterationsAlone) {
  const Result result = read_perseus_result(
      R"({"rank": 0, "iter_time": [0.0, 1], "iter_energy": [0, 2.5], "time_breakdown": {}, "energy_breakdown": {}})");
  EXPECT_THAT(result.iteration_energy_j, ElementsAre(0, 2.5));
}

TEST(PerseusProtocol, AWrongResultIsRefusedAtThePlace) {
  const auto refused = [](std::string_view key, const Json& value) {
    return error_of([&] { return read_perseus_result(result_body(key, value)); });
  };
  EXPECT_THAT(refused("iter_time", {1, -1, 1}), HasSubstr("$.iter_time[1]"));
  EXPECT_THAT(refused("iter_time", {1, nullptr, 1}), HasSubstr("$.iter_time[1]"));
  EXPECT_THAT(refused("iter_energy", {1}), HasSubstr("$.iter_energy: 1 energies for 3 iterations"));
  EXPECT_THAT(refused("time_breakdown", {{"forward", {{1, 1e300}}}}), HasSubstr("$.time_breakdown.forward[0][1]"));
  EXPECT_THAT(refused("time_breakdown", {{"sideways", Json::array()}}), HasSubstr("sideways"));
  EXPECT_THAT(refused("time_breakdown", Json::array()), HasSubstr("$.time_breakdown"));
  EXPECT_THAT(error_of([] { return read_perseus_result(R"({"rank": 0, "iter_time": [NaN]})"); }), Not(HasSubstr("\n")));
  EXPECT_NE(error_of([] { return read_perseus_result(R"({"rank": 0, "iter_time": [NaN], "iter_energy": [1]})"); }),
            "no error");
  EXPECT_NE(error_of([] { return read_perseus_result(R"({"rank": 0, "iter_time": [1e999], "iter_energy": [1]})"); }),
            "no error");
}

TEST(PerseusProtocol, SchedulesAreWrittenForEachClient) {
  EXPECT_EQ(perseus_power_states(3, std::vector{1410, 900}).dump(), R"({"rank":3,"power_states":[1410,900]})");
  const std::vector instructions = {Instruction::forward, Instruction::backward};
  EXPECT_EQ(zeus_frequencies(3, instructions, std::vector{1410, 900}).dump(),
            R"({"rank":3,"frequencies":[["forward",1410],["backward",900]]})");
}

TEST(PerseusProtocol, AnIdCanStandInAPath) {
  JobInfo job = test_job({});
  job.model_name = "meta/llama 3\n\xff";
  EXPECT_EQ(perseus_job_name(job, "PointSolution", 1'700'000'000),
            "2023-11-14-22-13-20+merak+meta_llama_3__+uniform+dp1+pp2+tp1+mbs4+nmb6+PointSolution");
  EXPECT_EQ(perseus_profile_name(job), "merak+meta_llama_3__+uniform+dp1+tp1+pp2+mbs4+nmb6.csv");
}

TEST(PerseusProtocol, AnIdIsTheirsForTheNamesThatTheyUse) {
  JobInfo job = test_job({});
  job.model_name = "bert-huge-uncased";
  job.partition_method = "custom:0,8,14,20,26";
  EXPECT_EQ(perseus_job_name(job, "PointSolution", 1'700'000'000),
            "2023-11-14-22-13-20+merak+bert-huge-uncased+custom:0,8,14,20,26+dp1+pp2+tp1+mbs4+nmb6+PointSolution");
}

TEST(PerseusProtocol, AnIdIsNoLongerThanTheNameOfAFile) {
  JobInfo job = test_job({kMaxPerseusWorldSize, 1, 1, nullptr});
  for (std::string* text : {&job.framework, &job.model_name, &job.partition_method, &job.metadata}) {
    *text = std::string(256, 'x');
  }
  for (const std::string_view scheduler : perseus_scheduler_names()) {
    const std::string name = perseus_job_name(job, scheduler, 1'700'000'000);
    EXPECT_LE(name.size(), 255U);
    EXPECT_THAT(name, HasSubstr(scheduler));
  }
  EXPECT_LE(perseus_profile_name(job).size(), 255U);
}

}  // namespace
}  // namespace lowgear::server::perseus

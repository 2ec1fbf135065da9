#include "client/rank/job_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::client {

namespace {

using testing::HasSubstr;

/// The pipeline ranks of all ranks of a job; -1 where it is not certain.
std::vector<int> pipeline_ranks(JobPlaceFacts facts, int world_size, std::optional<int> plan_ranks = {}) {
  std::vector<int> ranks;
  facts.world_size = world_size;
  for (facts.rank = 0; facts.rank < world_size; ++facts.rank) {
    ranks.push_back(pipeline_rank(facts, plan_ranks).rank.value_or(-1));
  }
  return ranks;
}

TEST(JobPlace, IsNeverTheRankModuloThePlan) {
  // pp 4 x tp 2, as Megatron numbers it: modulo 4, six of eight ranks would follow another stage.
  EXPECT_EQ(pipeline_ranks({}, 8, 4), std::vector<int>(8, -1));
  const AxisRank refused = pipeline_rank({.rank = 5, .world_size = 8}, 4);
  EXPECT_THAT(refused.reason, HasSubstr("rank 5 of 8"));
  EXPECT_THAT(refused.reason, HasSubstr("pp_rank when the client is opened (LOWGEAR_PP_RANK)"));
  EXPECT_THAT(refused.reason, HasSubstr("rank_order (LOWGEAR_RANK_ORDER)"));
}

TEST(JobPlace, IsWhatTheCallerSays) {
  EXPECT_EQ(pipeline_rank({.rank = 5, .world_size = 8, .pp_rank = 3}, 4).rank, 3);
  EXPECT_EQ(pipeline_rank({.rank = 5, .world_size = 8, .pp_rank = 3}).rank, 3);
  const JobPlaceFacts said{.rank = 5, .world_size = 8, .pp_rank = 3, .order = RankOrder::parse("megatron")};
  EXPECT_EQ(pipeline_rank(said, 4).rank, 3) << "comes before the order";
  EXPECT_THAT(pipeline_rank({.rank = 5, .world_size = 8, .pp_rank = 4}, 4).reason,
              HasSubstr("no rank 4 in this plan of 4"));
  EXPECT_THAT(pipeline_rank({.pp_rank = 2, .sizes = JobSizes{.pp = 2}}).reason, HasSubstr("not below the job's pp 2"));
}

TEST(JobPlace, FollowsTheOrderOfRanks) {
  const JobPlaceFacts megatron{.order = RankOrder::parse("megatron")};
  EXPECT_EQ(pipeline_ranks(megatron, 8, 4), (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(pipeline_ranks(megatron, 8), std::vector<int>(8, -1)) << "nothing says how long the pipeline is";
  EXPECT_EQ(pipeline_ranks({.order = RankOrder::parse("tp2-cp-ep-dp1-pp")}, 8), (std::vector<int>(8, -1)));
  EXPECT_EQ(pipeline_ranks({.order = RankOrder::parse("tp2-dp1-pp")}, 8), (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(pipeline_ranks({.order = RankOrder::parse("pp-dp-tp")}, 8, 4), (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(pipeline_ranks({.order = RankOrder::parse("TP2-CP-EP-PP-DP")}, 8, 2), (std::vector<int>(8, -1)))
      << "context parallel ranks stand between";
  EXPECT_EQ(pipeline_ranks({.order = RankOrder::parse("tp2-cp1-ep-pp-dp")}, 8, 2),
            (std::vector<int>{0, 0, 1, 1, 0, 0, 1, 1}));
  const JobPlaceFacts sized{.order = RankOrder::parse("tp-cp-pp-dp"), .sizes = JobSizes{.pp = 2, .dp = 1, .tp = 2}};
  EXPECT_EQ(pipeline_ranks(sized, 4), (std::vector<int>{0, 0, 1, 1}));
}

TEST(JobPlace, RefusesAnOrderThatDoesNotFitTheJob) {
  const auto reason = [](const char* order, int world, std::optional<int> plan_ranks,
                         std::optional<JobSizes> sizes = {}) {
    const AxisRank known =
        pipeline_rank({.rank = 1, .world_size = world, .order = RankOrder::parse(order), .sizes = sizes}, plan_ranks);
    EXPECT_FALSE(known.rank) << order;
    return known.reason;
  };
  EXPECT_THAT(reason("megatron", 6, 4), HasSubstr("sizes of its axes"));
  EXPECT_THAT(reason("tp2-pp4", 16, 4), HasSubstr("do not make up the job, in which this is rank 1 of 16"));
  EXPECT_THAT(reason("tp2-pp2-dp", 8, 4), HasSubstr("it has pp 2, and the plan 4 ranks"));
  EXPECT_THAT(reason("tp2-pp", 8, {}, JobSizes{.pp = 2, .tp = 4}), HasSubstr("it has tp 2, and the job tp 4"));
  EXPECT_THAT(reason("tp-pp", 8, {}, JobSizes{.pp = 2, .dp = 2, .tp = 2}),
              HasSubstr("it has cp 1 x dp 1, and the job dp 2"));
  EXPECT_THAT(reason("tp-pp-dp", 8, 2), HasSubstr("tp2-cp1-pp4-dp2"));
}

TEST(JobPlace, ReadsOrders) {
  EXPECT_EQ(RankOrder::parse("deepspeed").axes().size(), 3U);
  EXPECT_EQ(RankOrder::parse("megatron").axes().size(), 4U);
  for (const auto& [text, why] : std::map<std::string, std::string>{{"", "no axis \"\""},
                                                                    {"tp-dp", "pp is not in it"},
                                                                    {"tp-pp-tp2", "tp occurs in it twice"},
                                                                    {"tp-xx-pp", "no axis \"xx\""},
                                                                    {"tp0-pp", "no whole number"},
                                                                    {"tp-pp-", "no axis \"\""},
                                                                    {"ep2-pp", "ep takes no size"},
                                                                    {"tpx-pp", "no whole number"}}) {
    EXPECT_THAT(error_of([&text = text] { (void)RankOrder::parse(text); }), HasSubstr(why)) << text;
  }
}

TEST(JobPlace, NeedsNoOrderWhereOneAxisIsAll) {
  EXPECT_EQ(pipeline_ranks({.sizes = JobSizes{.pp = 4}}, 4, 4), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(pipeline_ranks({.sizes = JobSizes{.dp = 2, .tp = 2}}, 4, 1), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(pipeline_ranks({.sizes = JobSizes{.pp = 2, .tp = 2}}, 4, 2), (std::vector<int>(4, -1)));
  EXPECT_EQ(pipeline_ranks({.sizes = JobSizes{.pp = 4}}, 8, 4), (std::vector<int>(8, -1))) << "another job's sizes";
  EXPECT_THAT(pipeline_rank({.rank = 1, .world_size = 2, .sizes = JobSizes{.pp = 2}}, 4).reason,
              HasSubstr("the plan is for 4 pipeline ranks, and the job has pp 2"));
}

TEST(JobPlace, IsCertainForOneProcessAndPlansOfAllRanks) {
  EXPECT_EQ(pipeline_rank({.rank = 0, .world_size = 1}).rank, 0);
  EXPECT_EQ(pipeline_ranks({}, 8, 1), std::vector<int>(8, 0));
  EXPECT_EQ(pipeline_ranks({}, 4, 4), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_THAT(pipeline_rank({.rank = 0, .world_size = 1}, 4).reason,
              HasSubstr("4 pipeline ranks, and the job has 1 process"));
  EXPECT_FALSE(pipeline_rank({.rank = 3}, 4).rank) << "the size of the job is a guess";
  EXPECT_FALSE(pipeline_rank({.rank = 3, .world_size = 4}).rank) << "and nothing says that all are one pipeline";
}

TEST(JobPlace, NamesAllAxesForTheServer) {
  const auto place = [](int rank, const char* order, const JobSizes& sizes) {
    return job_place({.rank = rank,
                      .world_size = static_cast<int>(sizes.world_size()),
                      .order = RankOrder::parse(order),
                      .sizes = sizes});
  };
  const JobSizes sizes{.pp = 2, .dp = 3, .tp = 2};
  for (int rank = 0; rank < 12; ++rank) {
    const JobPlace at = place(rank, "megatron", sizes);
    EXPECT_EQ(rank, at.tp + 2 * (at.dp + 3 * at.pp));
    const JobPlace other = place(rank, "tp-cp1-pp-dp", sizes);
    EXPECT_EQ(rank, other.tp + 2 * (other.pp + 2 * other.dp));
  }
  std::map<std::vector<int>, int> places;
  for (int rank = 0; rank < 12; ++rank) {  // context parallel ranks count into dp, wherever they stand
    const JobPlace at = place(rank, "cp3-pp-dp-tp", {.pp = 2, .dp = 3, .tp = 2});
    ++places[{at.pp, at.dp, at.tp}];
    const JobPlace apart = place(rank, "cp2-pp-dp", {.pp = 2, .dp = 6});
    ++places[{apart.pp, apart.dp, 9}];
  }
  EXPECT_EQ(places.size(), 24U);
  EXPECT_EQ(place(4, "tp-cp-pp", {.pp = 2, .dp = 3, .tp = 2}).dp, 2) << "replicas that are all context parallel";
  EXPECT_EQ(job_place({.rank = 2, .world_size = 3, .sizes = JobSizes{.dp = 3}}).dp, 2);
  EXPECT_EQ(job_place({.pp_rank = 1, .dp_rank = 2, .tp_rank = 0, .sizes = sizes}).dp, 2);
  EXPECT_EQ(job_place({.rank = 0, .world_size = 1}).pp, 0) << "the server says what the job lacks";
  EXPECT_THAT(error_of([&] { (void)job_place({.world_size = 12, .pp_rank = 1, .sizes = sizes}); }),
              HasSubstr("pass dp_rank"));
  EXPECT_THAT(error_of([&] { (void)job_place({.world_size = 12, .sizes = sizes}); }), HasSubstr("pass pp_rank"));
  EXPECT_THAT(error_of([&] { (void)job_place({.pp_rank = 0, .dp_rank = 3, .sizes = sizes}); }),
              HasSubstr("dp_rank 3 is not below the job's dp 3"));
}

TEST(JobPlace, ReadsTheSizesOfAJob) {
  EXPECT_FALSE(read_job_sizes(""));
  EXPECT_FALSE(read_job_sizes(R"({"run": "r"})"));
  const auto sizes = read_job_sizes(R"({"parallel": {"pp": 4, "dp": 2, "chunks": 1}, "schedule": "1f1b"})");
  ASSERT_TRUE(sizes);
  EXPECT_EQ(sizes->world_size(), 8);
  EXPECT_TRUE(sizes->stage_is_pp_rank);
  EXPECT_FALSE(read_job_sizes(R"({"parallel": {"pp": 4, "chunks": 2}})")->stage_is_pp_rank);
  EXPECT_FALSE(read_job_sizes(R"({"parallel": {"pp": 4}, "schedule": {"csv": "0F0"}})")->stage_is_pp_rank);
  EXPECT_THAT(error_of([] { (void)read_job_sizes(R"({"parallel": {"pp": 0}})"); }), HasSubstr("$.parallel.pp"));
}

TEST(KnownPlace, SaysHowItIsKnown) {
  KnownPlace place({.rank = 2, .reason = "pp_rank"}, 2);
  EXPECT_EQ(place.get().pp_rank, 2);
  EXPECT_EQ(place.get().stage, 2);
  EXPECT_EQ(place.get().text, "pp_rank");
}

TEST(KnownPlace, AsksForStagesWhereARankHasSeveral) {
  KnownPlace place({.rank = 2, .reason = "pp_rank"}, 2);
  place.set({.rank = 1, .reason = "plan_rank"}, std::nullopt);
  EXPECT_EQ(place.get().pp_rank, 1);
  EXPECT_FALSE(place.get().stage);
  EXPECT_THAT(place.get().text, testing::HasSubstr("pipeline rank 1 (plan_rank) has more than one stage"));
}

TEST(KnownPlace, SaysWhyItIsNotCertain) {
  const KnownPlace place({.rank = {}, .reason = "pass pp_rank"}, std::nullopt);
  EXPECT_FALSE(place.get().pp_rank);
  EXPECT_EQ(place.get().text, "pass pp_rank");
}

}  // namespace

}  // namespace lowgear::client

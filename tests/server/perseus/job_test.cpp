#include "server/perseus/job.h"

#include <gmock/gmock.h>

#include "base/core/error.h"

namespace lowgear::server::perseus {
namespace {

using ::testing::HasSubstr;

JobInfo two_stages_of_two() {
  JobInfo job;
  job.pp_degree = 2;
  job.dp_degree = 2;
  job.world_size = 4;
  return job;
}

RankInfo rank(int number, int pp_rank, int dp_rank) {
  return {.rank = number,
          .dp_rank = dp_rank,
          .pp_rank = pp_rank,
          .tp_rank = 0,
          .pipe_schedule = {Instruction::forward, Instruction::backward},
          .power_states = {1500, 1000}};
}

/// What is wrong with a rank; empty: nothing.
std::string problem(const RegisteredRanks& ranks, const RankInfo& rank) {
  try {
    (void)ranks.check(rank);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(RegisteredRanks, TakeEachRankOnceAndKnowItAgain) {
  RegisteredRanks ranks(two_stages_of_two());
  EXPECT_FALSE(ranks.check(rank(1, 0, 1)));
  ranks.add(rank(1, 0, 1));
  EXPECT_TRUE(ranks.check(rank(1, 0, 1)));
  EXPECT_TRUE(ranks.contains(1));
  EXPECT_FALSE(ranks.contains(0));
  EXPECT_FALSE(ranks.contains(4));
  EXPECT_FALSE(ranks.contains(-1));
  EXPECT_THAT(problem(ranks, rank(1, 1, 1)), HasSubstr("rank 1 has registered before, with other values"));
}

TEST(RegisteredRanks, RefuseWhatIsOutOfRangeOrTaken) {
  RegisteredRanks ranks(two_stages_of_two());
  EXPECT_THAT(problem(ranks, rank(4, 0, 0)), HasSubstr("rank 4 is out of range; the job has 4"));
  EXPECT_THAT(problem(ranks, rank(0, 2, 0)), HasSubstr("pp_rank 2 is out of range; the job has 2"));
  EXPECT_THAT(problem(ranks, rank(0, 0, 2)), HasSubstr("dp_rank 2 is out of range; the job has 2"));
  ranks.add(rank(0, 0, 0));
  EXPECT_THAT(problem(ranks, rank(1, 0, 0)), HasSubstr("rank 1 has the pp_rank, dp_rank and tp_rank of rank 0"));
}

TEST(RegisteredRanks, RefuseOtherPowerStatesAndOtherSchedulesOfAStage) {
  RegisteredRanks ranks(two_stages_of_two());
  ranks.add(rank(0, 0, 0));
  RankInfo other = rank(1, 0, 1);
  other.power_states = {1400};
  EXPECT_THAT(problem(ranks, other), HasSubstr("rank 1 has other power states than rank 0"));
  other = rank(1, 0, 1);
  other.pipe_schedule = {Instruction::backward};
  EXPECT_THAT(problem(ranks, other), HasSubstr("another pipe_schedule than rank 0, which runs the same stage 0"));
  other.pp_rank = 1;
  EXPECT_EQ(problem(ranks, other), "") << "another stage";
}

TEST(RegisteredRanks, FreeThePlaceOfOneThatIsRemoved) {
  RegisteredRanks ranks(two_stages_of_two());
  ranks.add(rank(0, 0, 0));
  ranks.add(rank(1, 0, 1));
  ranks.remove(0);
  EXPECT_FALSE(ranks.contains(0));
  RankInfo other = rank(2, 0, 0);
  EXPECT_EQ(problem(ranks, other), "");
  other.pipe_schedule = {Instruction::backward};
  EXPECT_THAT(problem(ranks, other), HasSubstr("than rank 1")) << "the stage's rank is now the other one";
  ranks.remove(1);
  EXPECT_EQ(problem(ranks, other), "") << "the stage has no rank";
}

TEST(RegisteredRanks, AreAllThereOnceAllAreStored) {
  RegisteredRanks ranks(two_stages_of_two());
  for (int number = 3; number >= 0; --number) {
    EXPECT_FALSE(ranks.all_stored());
    ranks.add(rank(number, number / 2, number % 2));
    ranks.count_stored();
  }
  EXPECT_TRUE(ranks.all_stored());
  const std::vector<RankInfo> all = ranks.all();
  ASSERT_EQ(all.size(), 4);
  for (int number = 0; number < 4; ++number) EXPECT_EQ(all[static_cast<std::size_t>(number)].rank, number);
}

}  // namespace
}  // namespace lowgear::server::perseus

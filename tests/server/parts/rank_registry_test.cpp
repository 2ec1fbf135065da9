#include "server/parts/rank_registry.h"

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

protocol::RankSpec spec(int rank, int pp_rank, int dp_rank, std::vector<int> clocks_mhz = {1410, 1200, 900}) {
  protocol::RankSpec spec;
  spec.rank = rank;
  spec.pp_rank = pp_rank;
  spec.dp_rank = dp_rank;
  spec.instance = "process-" + std::to_string(rank);
  spec.host = "node-" + std::to_string(rank / 2);
  spec.follows_plans = !clocks_mhz.empty();
  spec.clocks_mhz = std::move(clocks_mhz);
  return spec;
}

constexpr protocol::JobParallel kTwoByTwo{.pp = 2, .dp = 2, .tp = 1, .chunks = 1};

TEST(RankRegistry, KnowsAProcessThatRegistersAgain) {
  RankRegistry ranks(kTwoByTwo);
  EXPECT_EQ(ranks.add(spec(0, 0, 0), "key", 1).outcome, RankRegistration::Outcome::created);
  const RankRegistration again = ranks.add(spec(0, 0, 0), "other key", 2);
  EXPECT_EQ(again.outcome, RankRegistration::Outcome::known);
  EXPECT_EQ(again.key, "key");
  protocol::RankSpec another = spec(0, 0, 0);
  another.instance = "another";
  const RankRegistration taken = ranks.add(another, "key of another", 3);
  EXPECT_EQ(taken.outcome, RankRegistration::Outcome::taken);
  EXPECT_EQ(taken.key, "");
  EXPECT_EQ(ranks.registered(), 1);
}

TEST(RankRegistry, RefusesAProcessThatNamesAnotherPlace) {
  RankRegistry ranks(kTwoByTwo);
  (void)ranks.add(spec(0, 0, 0), "key", 1);
  protocol::RankSpec with_another_gpu = spec(0, 0, 0);
  with_another_gpu.gpu_uuid = "GPU-2";
  protocol::RankSpec elsewhere = spec(0, 0, 0);
  elsewhere.host = "node-9";
  for (const protocol::RankSpec& moved : {spec(0, 1, 0), spec(0, 0, 1), with_another_gpu, elsewhere}) {
    const RankRegistration refused = ranks.add(moved, "other key", 2);
    EXPECT_EQ(refused.outcome, RankRegistration::Outcome::moved);
    EXPECT_EQ(refused.key, "");
  }
  EXPECT_EQ(ranks.find(0)->spec.pp_rank, 0);
  EXPECT_EQ(ranks.add(spec(1, 1, 0), "b", 1).outcome, RankRegistration::Outcome::created);
}

TEST(RankRegistry, RefusesAPlaceThatIsTaken) {
  RankRegistry ranks(kTwoByTwo);
  (void)ranks.add(spec(0, 0, 0), "a", 1);
  EXPECT_THROW((void)ranks.add(spec(1, 0, 0), "b", 1), InputError);
  EXPECT_EQ(ranks.find(1), nullptr);
  EXPECT_EQ(ranks.find(-1), nullptr);
  EXPECT_EQ(ranks.find(4), nullptr);
}

TEST(RankRegistry, ProvesARankByItsKeyAlone) {
  RankRegistry ranks(kTwoByTwo);
  (void)ranks.add(spec(0, 0, 0), "key of rank 0", 1);
  (void)ranks.add(spec(1, 0, 1), "key of rank 1", 1);
  EXPECT_TRUE(ranks.owns(0, "key of rank 0"));
  for (const char* wrong : {"", "key of rank 1", "key of rank ", "key of rank 00"}) EXPECT_FALSE(ranks.owns(0, wrong));
  EXPECT_FALSE(ranks.owns(2, ""));
  EXPECT_FALSE(ranks.owns(9, "key of rank 0"));
}

TEST(RankRegistry, HasTheClocksThatAllGpusSupport) {
  RankRegistry ranks(kTwoByTwo);
  (void)ranks.add(spec(0, 0, 0), "", 1);
  (void)ranks.add(spec(1, 0, 1, {1410, 1300, 900}), "", 1);
  EXPECT_TRUE(ranks.common_clocks().empty());  // no rank of stage 1 yet
  (void)ranks.add(spec(2, 1, 0), "", 1);
  EXPECT_EQ(ranks.common_clocks(), (std::vector<int>{1410, 900}));
  (void)ranks.add(spec(3, 1, 1, {}), "", 1);
  EXPECT_TRUE(ranks.complete());
  EXPECT_EQ(ranks.common_clocks(), (std::vector<int>{1410, 900}));
  EXPECT_EQ(ranks.followers(), 3U);
}

TEST(RankRegistry, CountsARankThatHasEndedOnce) {
  RankRegistry ranks({.pp = 1, .dp = 2, .tp = 1, .chunks = 1});
  EXPECT_FALSE(ranks.finish(0));
  (void)ranks.add(spec(0, 0, 0), "", 1);
  (void)ranks.add(spec(1, 0, 1), "", 1);
  EXPECT_TRUE(ranks.finish(0));
  EXPECT_FALSE(ranks.finish(0));
  EXPECT_FALSE(ranks.all_finished());
  EXPECT_TRUE(ranks.finish(1));
  EXPECT_TRUE(ranks.all_finished());
}

TEST(RankRegistry, NumbersHosts) {
  RankRegistry ranks(kTwoByTwo);
  for (int rank = 0; rank < 4; ++rank) (void)ranks.add(spec(rank, rank / 2, rank % 2), "", 1);
  EXPECT_EQ(ranks.hosts(), (std::vector<std::vector<int>>{{0, 1}, {0, 1}}));
}

}  // namespace
}  // namespace lowgear::server

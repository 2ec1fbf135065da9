#include "server/job/rank_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "base/core/error.h"

namespace lowgear::server {

namespace {

using testing::MatchesRegex;

TEST(Secret, Is128RandomBits) {
  std::set<std::string> secrets;
  for (int i = 0; i < 1'000; ++i) {
    const std::string secret = new_secret();
    EXPECT_THAT(secret, MatchesRegex("[0-9a-f]{32}"));
    secrets.insert(secret);
  }
  EXPECT_EQ(secrets.size(), 1'000U);
}

TEST(Secret, IsComparedWhole) {
  const std::string secret = new_secret();
  EXPECT_TRUE(same_secret(secret, secret));
  EXPECT_FALSE(same_secret(secret + secret, secret));
  EXPECT_FALSE(same_secret(secret.substr(0, 31), secret));
  EXPECT_FALSE(same_secret(secret, secret + "0"));
  EXPECT_FALSE(same_secret("", secret));
  EXPECT_FALSE(same_secret(secret, ""));
  EXPECT_FALSE(same_secret("", ""));
  for (std::size_t i = 0; i < secret.size(); ++i) {
    for (const int bit : {1, 32, 128}) {
      std::string other = secret;
      other[i] = static_cast<char>(other[i] ^ bit);
      EXPECT_FALSE(same_secret(other, secret));
    }
  }
}

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

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Jobs of one rank each.
class GpuUsesTest : public testing::Test {
 protected:
  void start(const std::string& job, const std::string& uuid, double now_s, bool simulated = false,
             const std::string& host = "node") {
    RegisteredRank& rank = ranks[job];
    rank.spec.gpu_uuid = uuid;
    rank.spec.host = host;
    rank.spec.simulated = simulated;
    rank.heard_s = rank.registered_s = now_s;
    uses.add(rank.spec, job);
  }
  void end(const std::string& job) {
    uses.remove(ranks.at(job).spec, job);
    ranks.erase(job);
  }
  /// What changes when these jobs are heard of.
  std::map<std::string, std::string> follow(const std::vector<std::string>& heard, double now_s) {
    for (const std::string& job : heard) ranks.at(job).heard_s = now_s;
    const auto find = [this](const GpuUses::User& user) {
      const auto found = ranks.find(user.job);
      return found == ranks.end() ? nullptr : &found->second;
    };
    std::map<std::string, std::string> changed;
    for (const GpuUses::Change& change : uses.follow(find, now_s)) {
      ranks.at(change.user.job).shared = change.shared;
      changed[change.user.job] = !change.shared ? "alone" : change.shared->counts_here ? "counts" : "does not";
    }
    return changed;
  }
  using Changes = std::map<std::string, std::string>;

  GpuUses uses;
  std::map<std::string, RegisteredRank> ranks;
};

TEST_F(GpuUsesTest, CountTheEnergyOfASharedGpuInTheFirstJob) {
  start("a", "GPU-1", 10);
  start("b", "GPU-1", 20);
  start("c", "GPU-2", 20);
  EXPECT_EQ(follow({"b"}, 21), Changes()) << "the process of the first may be gone";
  EXPECT_EQ(follow({"a"}, 22), (Changes{{"a", "counts"}, {"b", "does not"}}));
  EXPECT_THAT(ranks.at("b").shared->text, HasSubstr("GPU-1 of rank 0 is also that of job a"));
  EXPECT_THAT(ranks.at("a").shared->text, HasSubstr("is also that of job b"));
  EXPECT_THAT(follow({"a", "b"}, 30), IsEmpty());
  end("a");
  EXPECT_EQ(follow({"b"}, 31), (Changes{{"b", "alone"}}));
  EXPECT_THAT(follow({"b"}, 32), IsEmpty());
}

TEST_F(GpuUsesTest, TakeNoJobForSharedWhoseProcessHasCrashed) {
  start("a", "GPU-1", 10);
  EXPECT_EQ(follow({"a"}, 15), Changes());
  start("b", "GPU-1", 20);
  for (double now_s = 21; now_s < 60; ++now_s) EXPECT_EQ(follow({"b"}, now_s), Changes()) << now_s;
  follow({"a", "b"}, 61);
  EXPECT_TRUE(ranks.at("a").shared);
  EXPECT_EQ(follow({"b"}, 100), (Changes{{"a", "alone"}, {"b", "alone"}})) << "and then it crashes";
}

TEST_F(GpuUsesTest, TellSimulatedMachinesApartAndRealNamesOfOneNot) {
  start("a", "GPU-1", 10, true, "node-1");
  start("b", "GPU-1", 10, true, "node-2");
  EXPECT_EQ(follow({"a", "b"}, 12), Changes());
  start("c", "GPU-2", 10, false, "pod-1");
  start("d", "GPU-2", 10, false, "pod-2");
  EXPECT_THAT(follow({"c", "d"}, 12), SizeIs(2));
}

}  // namespace

}  // namespace lowgear::server

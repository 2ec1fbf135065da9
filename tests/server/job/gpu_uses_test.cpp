#include "server/job/gpu_uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lowgear::server {
namespace {

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

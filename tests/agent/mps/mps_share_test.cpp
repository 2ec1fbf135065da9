#include "agent/mps/mps_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lowgear::agent {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGpu = "GPU-a";

struct Asked {
  int percent;
  std::string client = {};
  std::string job = {};
  std::optional<std::uint32_t> rank = {};
};

MpsShare share_of(const Asked& asked, pid_t pid, uid_t uid = 1000, const char* gpu = kGpu) {
  return {.id = 0,
          .gpu_uuid = gpu,
          .request = {.percent = asked.percent, .client = asked.client, .job = asked.job, .rank = asked.rank},
          .owner = {.uid = uid, .gid = uid, .pid = pid},
          .process = {.pid = pid, .start_ticks = 7},
          .since = {}};
}

std::string refusal(MpsShareTable& table, const MpsShare& share) {
  try {
    (void)table.add(share);
  } catch (const GpuBusy& busy) {
    return busy.what();
  }
  return "";
}

TEST(MpsShareTable, NumbersAndNamesWhatItGives) {
  MpsShareTable table(100);
  EXPECT_EQ(table.add(share_of({.percent = 30}, 1)).request.client, "share-1");
  EXPECT_EQ(table.add(share_of({.percent = 30, .job = "llama"}, 2)).request.client, "llama");
  EXPECT_EQ(table.add(share_of({.percent = 30, .client = "tune"}, 3)).id, 3U);
  EXPECT_EQ(table.sum_percent(kGpu), 90);
  EXPECT_EQ(table.sum_percent("GPU-b"), 0);
}

TEST(MpsShareTable, RefusesMoreThanTheAdministratorAllows) {
  MpsShareTable table(100);
  (void)table.add(share_of({.percent = 60}, 1));
  EXPECT_THAT(refusal(table, share_of({.percent = 41}, 2)), HasSubstr("60 % of GPU GPU-a are given already, and 41 %"));
  (void)table.add(share_of({.percent = 41}, 2, 1000, "GPU-b"));
  EXPECT_EQ(table.add(share_of({.percent = 40}, 3)).id, 3U);  // what was refused has no number
  table.remove(1);
  EXPECT_EQ(refusal(table, share_of({.percent = 60}, 4)), "");
  MpsShareTable generous(150);
  (void)generous.add(share_of({.percent = 100}, 1));
  EXPECT_EQ(refusal(generous, share_of({.percent = 50}, 2)), "");
  EXPECT_NE(refusal(generous, share_of({.percent = 1}, 3)), "");
}

TEST(MpsShareTable, RefusesTwoRanksOfACommunicator) {
  MpsShareTable table(100);
  (void)table.add(share_of({.percent = 10, .client = "a", .job = "llama", .rank = 0}, 1));
  const MpsShare second = share_of({.percent = 10, .client = "b", .job = "llama", .rank = 1}, 2);
  EXPECT_THAT(refusal(table, second), HasSubstr("NCCL refuses two ranks of a communicator on one GPU"));
  (void)table.add(share_of({.percent = 10, .client = "b", .job = "llama", .rank = 1}, 2, 1000, "GPU-b"));
  // Jobs that do not say what they are, are different ones.
  (void)table.add(share_of({.percent = 10}, 3));
  EXPECT_EQ(refusal(table, share_of({.percent = 10}, 4)), "");
}

TEST(MpsShareTable, ServesOneUserAtATime) {
  MpsShareTable table(100);
  (void)table.add(share_of({.percent = 10}, 1, 1000));
  EXPECT_THAT(refusal(table, share_of({.percent = 10}, 2, 2000)), HasSubstr("serves one user at a time"));
  (void)table.add(share_of({.percent = 10}, 2, 2000, "GPU-b"));
  table.remove(1);
  EXPECT_EQ(refusal(table, share_of({.percent = 10}, 2, 2000)), "");
}

TEST(MpsShareTable, NamesAClientOnceOnAGpu) {
  MpsShareTable table(100);
  (void)table.add(share_of({.percent = 10, .client = "tune"}, 1));
  EXPECT_THAT(refusal(table, share_of({.percent = 10, .client = "tune"}, 2)), HasSubstr("client \"tune\" already"));
  EXPECT_EQ(refusal(table, share_of({.percent = 10, .client = "tune"}, 2, 1000, "GPU-b")), "");
}

TEST(MpsShareTable, ReplacesTheShareOfAProcess) {
  MpsShareTable table(100);
  (void)table.add(share_of({.percent = 80, .client = "tune"}, 1));
  EXPECT_EQ(table.add(share_of({.percent = 90, .client = "tune"}, 1)).id, 2U);
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.sum_percent(kGpu), 90);
  // A later process of the same number is another one.
  MpsShare later = share_of({.percent = 20, .client = "tune"}, 1);
  later.process.start_ticks = 8;
  EXPECT_NE(refusal(table, later), "");
  EXPECT_EQ(table.sum_percent(kGpu), 90);
}

}  // namespace
}  // namespace lowgear::agent

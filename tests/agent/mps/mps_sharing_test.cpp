#include "agent/mps/mps_sharing.h"

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

using ::testing::HasSubstr;

gpu::GpuSurvey gpu_of(int index, gpu::ComputeMode mode, bool mig) {
  gpu::GpuSurvey gpu;
  gpu.identity.index = index;
  gpu.identity.uuid = "GPU-0000000" + std::to_string(index) + "-0000-0000-0000-000000000000";
  gpu.identity.pci_address = "0000:0" + std::to_string(index) + ":00.0";
  gpu.identity.mig_enabled = mig;
  gpu.compute_mode = mode;
  return gpu;
}

TEST(MpsGpus, SayWhyAGpuCannotHaveADaemon) {
  gpu::NvmlSurvey survey;
  survey.gpus = {gpu_of(0, gpu::ComputeMode::shared, false), gpu_of(1, gpu::ComputeMode::prohibited, false),
                 gpu_of(2, gpu::ComputeMode::shared, true), gpu_of(3, gpu::ComputeMode::exclusive_process, false)};
  survey.gpus[3].compute_mode.reset();
  const auto found = find_mps_gpus(
      {survey.gpus[0].identity.uuid, "0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:07:00.0"}, survey);
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[0].refusal, "");
  EXPECT_THAT(found[1].refusal, HasSubstr("its compute mode lets no process use it"));
  EXPECT_THAT(found[1].refusal, HasSubstr("nvidia-smi -i 0000:01:00.0 -c DEFAULT"));
  EXPECT_THAT(found[2].refusal, HasSubstr("MIG is on"));
  EXPECT_EQ(found[3].refusal, "");  // MPS is what an exclusive GPU is shared by
  EXPECT_THAT(found[4].refusal, HasSubstr("there is no such GPU"));
}

TEST(MpsGpus, AreNamedOnceHoweverTheyAreSpelt) {
  gpu::NvmlSurvey survey;
  survey.gpus = {gpu_of(0, gpu::ComputeMode::exclusive_process, false)};
  const auto found = find_mps_gpus({survey.gpus[0].identity.uuid, "0000:00:00.0"}, survey);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].refusal, "");
}

}  // namespace

}  // namespace lowgear::agent

#include "agent/mps/mps_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lowgear::agent {
namespace {

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

#include "app/operations/doctor/sharing_diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "app/operations/doctor/good_machine.h"

namespace lowgear::operations::doctor {
namespace {

using testing::HasSubstr;

Finding mode_finding(std::optional<gpu::ComputeMode> mode, bool mig = false) {
  gpu::NvmlSurvey nvml = *good_machine().nvml;
  nvml.gpus[0].compute_mode = mode;
  nvml.gpus[0].identity.mig_enabled = mig;
  return diagnose_sharing({}, nvml).at(0);
}

TEST(SharingDiagnosis, SaysWhatTheModesAllow) {
  EXPECT_THAT(mode_finding(gpu::ComputeMode::shared).text, HasSubstr("compute mode default, MIG mode off"));
  EXPECT_THAT(mode_finding(gpu::ComputeMode::shared).fix, HasSubstr("lowgear pack"));
  EXPECT_THAT(mode_finding(gpu::ComputeMode::shared, true).text, HasSubstr("MIG mode on: jobs get instances"));
  const Finding exclusive = mode_finding(gpu::ComputeMode::exclusive_process);
  EXPECT_EQ(exclusive.level, FindingLevel::works);
  EXPECT_THAT(exclusive.text, HasSubstr("compute mode exclusive-process"));
  EXPECT_THAT(exclusive.fix, HasSubstr("nvidia-smi -i 0000:00:06.0 -c DEFAULT"));
  const Finding prohibited = mode_finding(gpu::ComputeMode::prohibited);
  EXPECT_EQ(prohibited.level, FindingLevel::limited);
  EXPECT_THAT(prohibited.text, HasSubstr("no process may use it"));
  EXPECT_THAT(mode_finding(std::nullopt).text, HasSubstr("not known"));
}

TEST(SharingDiagnosis, SaysHowMpsIsStartedAndEnded) {
  const gpu::NvmlSurvey nvml = *good_machine().nvml;
  SharingFacts facts{.mps_program = "", .mps_pipe_directory = "/run/mps"};
  const auto finding = [&] { return diagnose_sharing(facts, nvml).at(1); };
  EXPECT_THAT(finding().text, HasSubstr("not in PATH"));
  facts.mps_program = "/usr/bin/nvidia-cuda-mps-control";
  EXPECT_THAT(finding().fix, HasSubstr("CUDA_MPS_PIPE_DIRECTORY=/run/mps nvidia-cuda-mps-control -d"));
  facts.mps = MpsDaemon::runs;
  EXPECT_THAT(finding().fix, HasSubstr("echo quit"));
  facts.mps = MpsDaemon::not_seen;
  EXPECT_EQ(finding().level, FindingLevel::limited);
  facts.mps = MpsDaemon::forbidden;
  EXPECT_THAT(finding().text, HasSubstr("may not look into /run/mps"));
}

TEST(SharingDiagnosis, NamesTheDriverThatGreenContextsNeed) {
  const gpu::NvmlSurvey nvml = *good_machine().nvml;
  const auto finding = [&](GreenContexts contexts) {
    return diagnose_sharing({.green_contexts = contexts}, nvml).at(2);
  };
  EXPECT_THAT(finding(GreenContexts::missing).fix, HasSubstr("driver 550"));
  EXPECT_THAT(finding(GreenContexts::there).text, HasSubstr("cuGreenCtxCreate"));
  EXPECT_THAT(finding(GreenContexts::no_library).text, HasSubstr("libcuda.so.1"));
}

TEST(SharingDiagnosis, IsEmptyWithoutAGpu) {
  gpu::NvmlSurvey nvml = *good_machine().nvml;
  nvml.gpus.clear();
  EXPECT_TRUE(diagnose_sharing({}, nvml).empty());
}

}  // namespace
}  // namespace lowgear::operations::doctor

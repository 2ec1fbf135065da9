#include "app/operations/doctor/sharing_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "app/operations/doctor/good_machine.h"
#include "base/core/temporary_folder.h"

namespace lowgear::operations::doctor {
namespace {

namespace fs = std::filesystem;

/// Sets a variable for the life of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* old = ::getenv(name);
    was_set_ = old != nullptr;
    if (was_set_) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (was_set_) {
      ::setenv(name_, old_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool was_set_ = false;
  std::string old_;
};

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(SharingFacts, FindTheDaemonByItsProcess) {
  const TemporaryFolder root;
  const Variable directory("CUDA_MPS_PIPE_DIRECTORY", "/run/mps");
  EXPECT_EQ(collect_sharing_facts(root.path()).mps, MpsDaemon::absent);
  write(root / "proc/17/cmdline", std::string("/bin/sh\0nvidia-cuda-mps-control\0", 32));
  write(root / "proc/self/cmdline", "nvidia-cuda-mps-control");
  EXPECT_EQ(collect_sharing_facts(root.path()).mps, MpsDaemon::absent) << "only an argument, and no process number";
  write(root / "run/mps/control", "");
  EXPECT_EQ(collect_sharing_facts(root.path()).mps, MpsDaemon::not_seen);
  write(root / "proc/18/cmdline", std::string("/usr/bin/nvidia-cuda-mps-control\0-d\0", 36));
  const SharingFacts facts = collect_sharing_facts(root.path());
  EXPECT_EQ(facts.mps, MpsDaemon::runs);
  EXPECT_EQ(facts.mps_pipe_directory, "/run/mps");
}

TEST(SharingFacts, FindTheProgramInPath) {
  const TemporaryFolder folder;
  const Variable directory("CUDA_MPS_PIPE_DIRECTORY", "");
  const Variable path("PATH", "/nowhere::" + (folder / "bin").string());
  const fs::path program = folder / "bin/nvidia-cuda-mps-control";
  write(program, "#!/bin/sh\n");
  EXPECT_EQ(collect_sharing_facts().mps_program, "") << "not executable";
  fs::permissions(program, fs::perms::owner_all);
  const SharingFacts facts = collect_sharing_facts();
  EXPECT_EQ(facts.mps_program, program.string());
  EXPECT_EQ(facts.mps_pipe_directory, "/tmp/nvidia-mps");
}

TEST(SharingFacts, LookGreenContextsUpInTheLibrary) {
  const auto contexts = [](const std::string& library) { return collect_sharing_facts("/", library).green_contexts; };
  EXPECT_EQ(contexts("libnothing-of-this-name.so"), GreenContexts::no_library);
  EXPECT_EQ(contexts("libc.so.6"), GreenContexts::missing);
  EXPECT_EQ(contexts(FAKE_CUDA), GreenContexts::there);
}

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

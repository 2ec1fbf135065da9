#include "app/operations/doctor/sharing_facts.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

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

}  // namespace
}  // namespace lowgear::operations::doctor

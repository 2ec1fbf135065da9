#include "agent/config/initial_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "agent/config/config.h"
#include "base/core/error.h"

namespace lowgear::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr gid_t kGroup = 1234;

gpu::GpuSurvey survey(const std::string& uuid, bool clock_control = true, bool mig = false) {
  gpu::GpuSurvey gpu;
  gpu.identity = {.uuid = uuid, .pci_address = "0000:17:00.0", .name = "NVIDIA H100 80GB HBM3", .mig_enabled = mig};
  gpu.features.at(static_cast<std::size_t>(gpu::GpuFeature::clock_control)).works = clock_control;
  gpu.supported_sm_clocks_mhz = {1980, 1200, 210};
  return gpu;
}

/// As the agent reads it, where `group` is the one group that exists.
Config parsed(const InitialConfig& initial, const std::string& group) {
  const NameLookup lookup{.user = [](const std::string&) -> uid_t { throw Error("there is no user"); },
                          .group = [&](const std::string& name) -> gid_t {
                            if (name != group) throw Error("there is no group " + name);
                            return kGroup;
                          }};
  return parse_agent_config(initial_config_text(initial), "agent.yaml", lookup);
}

TEST(InitialConfig, LetsTheGroupLockTheClocksOfEveryGpuAndNothingElse) {
  const InitialConfig initial{.gpus = {survey("GPU-a"), survey("GPU-b")}, .group = "alice", .folder = {}};
  const Config config = parsed(initial, "alice");
  EXPECT_THAT(config.gpus, ElementsAre("GPU-a", "GPU-b"));
  EXPECT_FALSE(config.all_gpus);
  EXPECT_EQ(config.process.http_group, kGroup);
  EXPECT_EQ(config.process.agent.lease_server.group, kGroup);
  EXPECT_EQ(config.process.http_socket, "/run/lowgear/agent.sock");
  EXPECT_EQ(config.journal, "/var/lib/lowgear");
  ASSERT_EQ(config.allow.size(), 1U);
  EXPECT_EQ(config.allow[0].group, kGroup);
  EXPECT_FALSE(config.allow[0].everybody);
  EXPECT_FALSE(config.allow[0].power || config.allow[0].memory_clocks || config.allow[0].persistence);
  EXPECT_FALSE(config.process.http_port || config.process.metrics) << "it listens nowhere else";
}

TEST(InitialConfig, LeavesOutGpusThatCannotFollowPlansAndSaysWhy) {
  const InitialConfig initial{
      .gpus = {survey("GPU-a"), survey("GPU-b", false), survey("GPU-c", true, true)}, .group = "alice", .folder = {}};
  EXPECT_THAT(parsed(initial, "alice").gpus, ElementsAre("GPU-a"));
  const std::string text = initial_config_text(initial);
  EXPECT_THAT(text, HasSubstr("GPU-a      # 0000:17:00.0, NVIDIA H100 80GB HBM3, 210 to 1980 MHz\n"));
  EXPECT_THAT(text, HasSubstr("GPU-b (0000:17:00.0, NVIDIA H100 80GB HBM3, 210 to 1980 MHz): its clocks cannot"));
  EXPECT_THAT(text, HasSubstr("MIG is on"));
}

TEST(InitialConfig, QuotesWhateverAGroupIsNamed) {
  for (const std::string group : {"domain users", "a: b # c", "yes", "0100", "quo\"te"}) {
    const InitialConfig initial{.gpus = {survey("GPU-a")}, .group = group, .folder = {}};
    EXPECT_EQ(parsed(initial, group).allow.at(0).group, kGroup) << group;
  }
}

TEST(InitialConfig, KeepsJournalAndSocketsInAFolderOfTheUsers) {
  const InitialConfig initial{.gpus = {survey("GPU-a")}, .group = "alice", .folder = "/home/alice/my agent"};
  const Config config = parsed(initial, "alice");
  EXPECT_EQ(config.journal, "/home/alice/my agent/journal");
  EXPECT_EQ(config.process.http_socket, "/home/alice/my agent/agent.sock");
  EXPECT_EQ(config.process.agent.lease_server.socket, "/home/alice/my agent/lease.sock");
}

}  // namespace
}  // namespace lowgear::agent

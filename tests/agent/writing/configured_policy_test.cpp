#include "agent/writing/configured_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "agent/test_trainer.h"
#include "base/core/error.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Peer kAlice{.uid = 1001, .gid = 1001, .pid = 7};
constexpr Peer kBob{.uid = 1002, .gid = 1002, .pid = 8};

/// A configuration of three fake GPUs, in which Alice may set the first two.
class ConfiguredPolicyTest : public testing::Test {
 protected:
  ConfiguredPolicyTest() {
    config_.gpus = {uuid(0), uuid(1)};
    AllowRule alice;
    alice.user = kAlice.uid;
    alice.gpus = {uuid(0), uuid(1)};
    alice.max_clock_mhz = 1500;
    config_.allow = {alice};
  }

  [[nodiscard]] std::string uuid(int gpu) const { return system_->fake(gpu).identity().uuid; }
  [[nodiscard]] const gpu::GpuIdentity& identity(int gpu) const { return system_->fake(gpu).identity(); }
  [[nodiscard]] std::unique_ptr<ConfiguredPolicy> policy(bool dry_run = false) const {
    ClockGovernorOptions governor;
    governor.dry_run = dry_run;
    return std::make_unique<ConfiguredPolicy>(config_, *system_, journal_, std::move(governor));
  }

  std::shared_ptr<gpu::FakeGpuSystem> system_ = std::make_shared<gpu::FakeGpuSystem>(3);
  std::shared_ptr<Journal> journal_ = std::make_shared<Journal>(discarding_journal());
  Config config_;
};

TEST_F(ConfiguredPolicyTest, ControlsTheGpusThatAreNamed) {
  config_.gpus = {identity(1).pci_address, uuid(0), uuid(1)};  // one of them twice
  EXPECT_THAT(policy()->controlled_gpus(), ElementsAre(uuid(0), uuid(1)));
  config_.gpus = {};
  EXPECT_THAT(policy()->controlled_gpus(), IsEmpty());
  config_.all_gpus = true;
  EXPECT_THAT(policy()->controlled_gpus(), ElementsAre(uuid(0), uuid(1), uuid(2)));
  config_.all_gpus = false;
  config_.gpus = {"GPU-none", uuid(2)};
  EXPECT_THAT(policy()->controlled_gpus(), ElementsAre(uuid(2))) << "one that is missing takes no other with it";
}

TEST_F(ConfiguredPolicyTest, AllowsWhatTheRulesSay) {
  const auto decided = policy();
  EXPECT_EQ(decided->allow(kAlice, identity(0)).max_clock_mhz, 1500);
  EXPECT_EQ(decided->allow(kAlice, identity(0)).min_clock_mhz, 345);
  EXPECT_THROW((void)decided->allow(kAlice, identity(2)), AccessDenied);
  EXPECT_THROW((void)decided->allow(kBob, identity(0)), AccessDenied);
  EXPECT_TRUE(decided->may_read(kAlice));
  EXPECT_FALSE(decided->may_read(kBob));
}

TEST_F(ConfiguredPolicyTest, WritesToTheGpuThatIsMeant) {
  const auto writer = policy()->writer(identity(1));
  writer->apply(gpu::LockSmClocks{345, 1200});
  EXPECT_EQ(system_->fake(1).settings().max_sm_clock_mhz, 1200);
  EXPECT_THAT(system_->fake(0).control_calls(), IsEmpty());
  writer->restore();
  EXPECT_EQ(system_->fake(1).settings(), gpu::FakeSettings{});
}

TEST_F(ConfiguredPolicyTest, WritesNothingInADryRun) {
  const auto dry = policy(true);
  EXPECT_TRUE(dry->dry_run());
  EXPECT_FALSE(policy()->dry_run());
  const auto writer = dry->writer(identity(0));
  writer->apply(gpu::LockSmClocks{345, 1200});
  writer->apply(gpu::SetPowerLimit{450});
  writer->restore();
  EXPECT_THAT(system_->fake(0).control_calls(), IsEmpty());
}

TEST_F(ConfiguredPolicyTest, ReadsPlansForTheGpuAndTheRange) {
  const auto decided = policy();
  gpu::FakeGpu& gpu = system_->fake(0);
  const AllowedRange allowed = decided->allow(kAlice, gpu.identity());
  const auto clocks = decided->read_plan(plan_message(two_clock_plan(1, 1005, 1500)), gpu.identity(), allowed);
  ipc::UnitEvent event{.type = ipc::UnitEventType::unit_begin, .kind = static_cast<std::uint8_t>(OpKind::forward)};
  EXPECT_EQ(clocks->clock_mhz(event, {}), 1005);
  EXPECT_THROW((void)decided->read_plan(plan_message(two_clock_plan(1, 1005, 1950)), gpu.identity(), allowed),
               InputError);
  EXPECT_THROW((void)decided->read_plan(plan_message(two_clock_plan(1, 1004, 1500)), gpu.identity(), allowed),
               InputError);
}

}  // namespace
}  // namespace lowgear::agent

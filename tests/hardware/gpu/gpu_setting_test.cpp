#include "hardware/gpu/gpu_setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lowgear::gpu {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(WorkloadPowerProfile, EveryNumberHasANameThatLeadsBackToIt) {
  for (std::size_t profile = 0; profile < kWorkloadPowerProfileLimit; ++profile) {
    EXPECT_EQ(find_workload_power_profile(workload_power_profile_name(profile)), profile);
  }
  EXPECT_EQ(workload_power_profile_name(7), "llm_training");
  EXPECT_EQ(workload_power_profile_name(14), "mig");
  EXPECT_EQ(workload_power_profile_name(15), "profile_15");
}

TEST(WorkloadPowerProfile, OtherNamesAreNone) {
  for (const char* name : {"", "LLM_TRAINING", "training", "profile_", "profile_7", "profile_255", "profile_15x",
                           "profile_-1", "profile_99999999999999999999"}) {
    EXPECT_EQ(find_workload_power_profile(name), std::nullopt) << name;
  }
}

TEST(WorkloadPowerProfile, SetsAreListedByNumber) {
  EXPECT_THAT(names(WorkloadPowerProfileSet()), IsEmpty());
  EXPECT_EQ(to_string(WorkloadPowerProfileSet()), "none");
  WorkloadPowerProfileSet set(0b1000'0100);
  set.set(254);
  EXPECT_THAT(names(set), ElementsAre("compute", "llm_training", "profile_254"));
  EXPECT_EQ(to_string(set), "compute, llm_training, profile_254");
}

TEST(GpuSetting, SaysWhatItDoes) {
  EXPECT_EQ(to_string(LockSmClocks{345, 1005}), "lock SM clocks to 345-1005 MHz");
  EXPECT_EQ(to_string(ResetSmClocks{}), "reset SM clocks");
  EXPECT_EQ(to_string(LockMemoryClocks{1593, 2619}), "lock memory clocks to 1593-2619 MHz");
  EXPECT_EQ(to_string(ResetMemoryClocks{}), "reset memory clocks");
  EXPECT_EQ(to_string(SetPowerLimit{412.5}), "set the power limit to 412.5 W");
  EXPECT_EQ(to_string(SetPersistenceMode{true}), "enable persistence mode");
  EXPECT_EQ(to_string(SetPersistenceMode{false}), "disable persistence mode");
  EXPECT_EQ(to_string(RequestWorkloadPowerProfiles{0b1000'0010}),
            "request workload power profiles: max_q, llm_training");
  EXPECT_EQ(to_string(RequestWorkloadPowerProfiles{}), "request workload power profiles: none");
  EXPECT_EQ(to_string(SetPowerSmoothing{.enabled = true, .preset = 2}), "enable power smoothing with preset 2");
  EXPECT_EQ(to_string(SetPowerSmoothing{.enabled = false, .preset = {}}), "disable power smoothing");
}

TEST(GpuSetting, IsNamedWithoutValues) {
  EXPECT_EQ(name(LockSmClocks{345, 1005}), "lock SM clocks");
  EXPECT_EQ(name(SetPowerLimit{400}), "set the power limit");
  EXPECT_EQ(name(SetPersistenceMode{true}), "set persistence mode");
}

}  // namespace

}  // namespace lowgear::gpu

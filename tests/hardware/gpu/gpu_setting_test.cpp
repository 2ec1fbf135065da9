#include "hardware/gpu/gpu_setting.h"

#include <gtest/gtest.h>

namespace lowgear::gpu {
namespace {

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

#include "agent/service/gpu_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/allowed_everything.h"
#include "agent/service/agent_service.h"
#include "base/core/error.h"

namespace lowgear::agent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr AllowedRange kClocksAlone{.min_clock_mhz = 345, .max_clock_mhz = 1980};

TEST(RequireAllowed, TakesWhatIsWithinTheRange) {
  for (const gpu::GpuSetting& setting :
       {gpu::GpuSetting(gpu::LockSmClocks{345, 1980}), gpu::GpuSetting(gpu::ResetSmClocks{}),
        gpu::GpuSetting(gpu::LockMemoryClocks{1593, 2619}), gpu::GpuSetting(gpu::ResetMemoryClocks{}),
        gpu::GpuSetting(gpu::SetPowerLimit{200}), gpu::GpuSetting(gpu::SetPersistenceMode{true}),
        gpu::GpuSetting(gpu::RequestWorkloadPowerProfiles{0b1}), gpu::GpuSetting(gpu::SetPowerSmoothing{true, 1})}) {
    EXPECT_NO_THROW(require_allowed(setting, kAllowedEverything)) << to_string(setting);
  }
}

TEST(RequireAllowed, RefusesValuesOutsideOfIt) {
  for (const gpu::GpuSetting& setting :
       {gpu::GpuSetting(gpu::LockSmClocks{344, 1980}), gpu::GpuSetting(gpu::LockSmClocks{345, 1981}),
        gpu::GpuSetting(gpu::LockSmClocks{1005, 1000}), gpu::GpuSetting(gpu::LockMemoryClocks{0, 2619}),
        gpu::GpuSetting(gpu::LockMemoryClocks{2619, 1593}), gpu::GpuSetting(gpu::SetPowerLimit{199}),
        gpu::GpuSetting(gpu::SetPowerLimit{701}), gpu::GpuSetting(gpu::SetPowerLimit{std::nan("")})}) {
    EXPECT_THROW(require_allowed(setting, kAllowedEverything), InputError) << to_string(setting);
  }
}

TEST(RequireAllowed, NamesTheRightThatIsMissing) {
  EXPECT_NO_THROW(require_allowed(gpu::LockSmClocks{345, 1980}, kClocksAlone));
  EXPECT_NO_THROW(require_allowed(gpu::ResetSmClocks{}, kClocksAlone));
  const auto refused = [](const gpu::GpuSetting& setting) {
    return [setting] { require_allowed(setting, kClocksAlone); };
  };
  EXPECT_THAT(refused(gpu::LockMemoryClocks{1593, 2619}),
              ThrowsMessage<AccessDenied>(HasSubstr("memory_clocks: true")));
  EXPECT_THAT(refused(gpu::ResetMemoryClocks{}), ThrowsMessage<AccessDenied>(HasSubstr("memory_clocks: true")));
  EXPECT_THAT(refused(gpu::SetPowerLimit{400}), ThrowsMessage<AccessDenied>(HasSubstr("power: true")));
  EXPECT_THAT(refused(gpu::SetPersistenceMode{true}), ThrowsMessage<AccessDenied>(HasSubstr("persistence: true")));
  EXPECT_THAT(refused(gpu::RequestWorkloadPowerProfiles{}),
              ThrowsMessage<AccessDenied>(HasSubstr("workload_power_profiles: true")));
  EXPECT_THAT(refused(gpu::SetPowerSmoothing{false, {}}),
              ThrowsMessage<AccessDenied>(HasSubstr("power_smoothing: true")));
}

}  // namespace
}  // namespace lowgear::agent

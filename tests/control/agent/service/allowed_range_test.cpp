#include "control/agent/service/allowed_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/core/error.h"
#include "control/agent/allowed_everything.h"
#include "control/agent/service/agent_service.h"

namespace lowgear {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr AllowedRange kClocksAlone{.min_clock_mhz = 345, .max_clock_mhz = 1980};

TEST(RequireAllowed, TakesWhatIsWithinTheRange) {
  for (const GpuSetting& setting :
       {GpuSetting(LockSmClocks{345, 1980}), GpuSetting(ResetSmClocks{}), GpuSetting(LockMemoryClocks{1593, 2619}),
        GpuSetting(ResetMemoryClocks{}), GpuSetting(SetPowerLimit{200}), GpuSetting(SetPersistenceMode{true})}) {
    EXPECT_NO_THROW(require_allowed(setting, kAllowedEverything)) << to_string(setting);
  }
}

TEST(RequireAllowed, RefusesValuesOutsideOfIt) {
  for (const GpuSetting& setting :
       {GpuSetting(LockSmClocks{344, 1980}), GpuSetting(LockSmClocks{345, 1981}), GpuSetting(LockSmClocks{1005, 1000}),
        GpuSetting(LockMemoryClocks{0, 2619}), GpuSetting(LockMemoryClocks{2619, 1593}), GpuSetting(SetPowerLimit{199}),
        GpuSetting(SetPowerLimit{701}), GpuSetting(SetPowerLimit{std::nan("")})}) {
    EXPECT_THROW(require_allowed(setting, kAllowedEverything), InputError) << to_string(setting);
  }
}

TEST(RequireAllowed, NamesTheRightThatIsMissing) {
  EXPECT_NO_THROW(require_allowed(LockSmClocks{345, 1980}, kClocksAlone));
  EXPECT_NO_THROW(require_allowed(ResetSmClocks{}, kClocksAlone));
  const auto refused = [](const GpuSetting& setting) { return [setting] { require_allowed(setting, kClocksAlone); }; };
  EXPECT_THAT(refused(LockMemoryClocks{1593, 2619}), ThrowsMessage<AccessDenied>(HasSubstr("memory_clocks = true")));
  EXPECT_THAT(refused(ResetMemoryClocks{}), ThrowsMessage<AccessDenied>(HasSubstr("memory_clocks = true")));
  EXPECT_THAT(refused(SetPowerLimit{400}), ThrowsMessage<AccessDenied>(HasSubstr("power = true")));
  EXPECT_THAT(refused(SetPersistenceMode{true}), ThrowsMessage<AccessDenied>(HasSubstr("persistence = true")));
}

}  // namespace
}  // namespace lowgear

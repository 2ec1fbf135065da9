#include "planning/plan/power_limit_setting.h"

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace lowgear::plan {
namespace {

Plan plan_with(const std::vector<std::string>& settings) {
  Plan plan;
  plan.ranks.emplace_back();
  for (const std::string& setting : settings) {
    PlannedOp op;
    op.setting = setting;
    plan.ranks.back().push_back(op);
  }
  return plan;
}

TEST(PowerLimitSetting, IsReadFromItsName) {
  EXPECT_EQ(power_limit_w("pl:300"), 300);
  EXPECT_EQ(power_limit_w("pl:10000"), 10'000);
  for (const char* other :
       {"", "pl:", "pl:0", "pl:-5", "pl:10001", "pl:300.5", "pl:300W", "sm12", "sm12;pl:300", "PL:300"}) {
    EXPECT_EQ(power_limit_w(other), std::nullopt) << other;
  }
}

TEST(PowerLimitSetting, IsTheOnlyOneThatPasses) {
  EXPECT_NO_THROW(refuse_settings_but_power_limits(plan_with({"", "pl:300", "pl:250"}), "it"));
  EXPECT_THROW(refuse_settings_but_power_limits(plan_with({"pl:300", "sm12"}), "it"), InputError);
}

}  // namespace
}  // namespace lowgear::plan

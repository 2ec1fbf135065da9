#include "planning/profile/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lowgear::profile {
namespace {

using testing::HasSubstr;

TEST(Setting, IsANameThatPassesThroughEveryFormat) {
  for (const std::string good : {"", "sm12", "attn=sm12;mlp=sm6", "pl:300", "0.5", "A_b-c/d@e+f"}) {
    EXPECT_FALSE(problem_with_setting(good).has_value()) << good;
  }
  for (const std::string bad :
       {" ", "=SUM(A1)", "-x", "@x", "a b", "a,b", "a\"b", "a\nb", "<b>", "sm\xc3\xa9", "a'b"}) {
    EXPECT_THAT(problem_with_setting(bad).value_or(""), HasSubstr("not allowed")) << bad;
  }
}

TEST(Setting, HasALongestLength) {
  EXPECT_FALSE(problem_with_setting(std::string(kMaxSettingBytes, 'a')).has_value());
  EXPECT_THAT(problem_with_setting(std::string(kMaxSettingBytes + 1, 'a')).value_or(""), HasSubstr("longer than"));
}

}  // namespace
}  // namespace lowgear::profile

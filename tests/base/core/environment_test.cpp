#include "base/core/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace lowgear {
namespace {

TEST(Environment, HasTheVariablesOfTheProcess) {
  const char* name = "LOWGEAR_ENVIRONMENT_TEST";
  ASSERT_EQ(::unsetenv(name), 0);
  EXPECT_EQ(process_environment()(name), std::nullopt);
  ASSERT_EQ(::setenv(name, "", 1), 0);
  EXPECT_EQ(process_environment()(name), "");
  ASSERT_EQ(::setenv(name, "a b", 1), 0);
  EXPECT_EQ(process_environment()(name), "a b");
  ASSERT_EQ(::unsetenv(name), 0);
}

}  // namespace
}  // namespace lowgear

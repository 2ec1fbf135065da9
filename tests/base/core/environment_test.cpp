#include "base/core/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <string>

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

TEST(HostName, IsThatOfTheSystem) {
  utsname system{};
  ASSERT_EQ(::uname(&system), 0);
  EXPECT_EQ(host_name(), system.nodename);
}

TEST(ProgramWords, EndWithNull) {
  const ProgramWords words(std::vector<std::string>{"program", "", "an argument"});
  EXPECT_STREQ(words.get()[0], "program");
  EXPECT_STREQ(words.get()[1], "");
  EXPECT_STREQ(words.get()[2], "an argument");
  EXPECT_EQ(words.get()[3], nullptr);
  EXPECT_EQ(ProgramWords(std::vector<std::string>{}).get()[0], nullptr);
}

TEST(ProgramWords, WriteVariablesWithTheirValues) {
  const ProgramWords words(std::map<std::string, std::string>{{"A", "1=2"}, {"B", ""}});
  EXPECT_STREQ(words.get()[0], "A=1=2");
  EXPECT_STREQ(words.get()[1], "B=");
  EXPECT_EQ(words.get()[2], nullptr);
}

TEST(EnvironmentWith, ReplacesAndAddsVariables) {
  ASSERT_EQ(::setenv("LOWGEAR_TEST_KEPT", "a=b", 1), 0);
  ASSERT_EQ(::setenv("LOWGEAR_TEST_REPLACED", "old", 1), 0);
  const auto variables = environment_with({{"LOWGEAR_TEST_REPLACED", "new"}, {"LOWGEAR_TEST_ADDED", ""}});
  EXPECT_EQ(variables.at("LOWGEAR_TEST_KEPT"), "a=b");
  EXPECT_EQ(variables.at("LOWGEAR_TEST_REPLACED"), "new");
  EXPECT_EQ(variables.at("LOWGEAR_TEST_ADDED"), "");
}

TEST(BootId, StaysTheSame) { EXPECT_EQ(boot_id(), boot_id()); }

}  // namespace

}  // namespace lowgear

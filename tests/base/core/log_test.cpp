#include "base/core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/core/error_of.h"

namespace lowgear {
namespace {

class Log : public ::testing::Test {
 protected:
  void TearDown() override { set_log_level(LogLevel::info); }
};

std::string printed(std::string_view text) {
  ::testing::internal::CaptureStderr();
  log_debug(text);
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(Log, SaysWhatIsForDebuggingOnlyThen) {
  EXPECT_EQ(printed("a request"), "");
  set_log_level(LogLevel::debug);
  EXPECT_EQ(printed("a request\nof two lines"), "lowgear: debug: a request\\x0aof two lines\n");
}

TEST_F(Log, HasTheLevelOfTheEnvironment) {
  const auto with = [](std::optional<std::string> text) {
    return [text](std::string_view name) { return name == "LOWGEAR_LOG" ? text : std::nullopt; };
  };
  set_log_level(with("DEBUG"));
  EXPECT_EQ(log_level(), LogLevel::debug);
  set_log_level(with(std::nullopt));
  set_log_level(with(""));
  EXPECT_EQ(log_level(), LogLevel::debug) << "as it was";
  set_log_level(with("warning"));
  EXPECT_EQ(log_level(), LogLevel::warning);
  EXPECT_EQ(error_of([&] { set_log_level(with("loud")); }),
            "LOWGEAR_LOG: expected debug or info or warning or error, not \"loud\"");
}

}  // namespace
}  // namespace lowgear

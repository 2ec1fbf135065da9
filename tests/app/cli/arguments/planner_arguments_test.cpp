#include "app/cli/arguments/planner_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lowgear::cli {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Optional;

api::Deadlines parsed(const std::string& command) {
  CLI::App app;
  api::Deadlines deadlines;
  add_deadline_options(app, deadlines);
  app.parse(command);
  return deadlines;
}

TEST(Deadlines, AreSpreadEvenlyAndIncludeBothEnds) {
  EXPECT_THAT(deadlines_s(parsed("--plans 3"), {2, 4}), ElementsAre(2, 3, 4));
  EXPECT_EQ(deadlines_s(parsed(""), {2, 4}).size(), 20U);
  EXPECT_EQ(deadlines_s(parsed(""), {2, 4}).back(), 4);
}

TEST(Deadlines, OfOnePlanIsTheFastest) {
  EXPECT_THAT(deadlines_s(parsed("--plans 1"), {2, 4}), ElementsAre(2));
  EXPECT_THAT(deadlines_s(parsed("--plans 7"), {2, 2}), ElementsAre(2));
}

TEST(Deadlines, SingleOnes) {
  EXPECT_EQ(single_deadline_s(parsed(""), 2, 4), std::nullopt);
  EXPECT_THAT(single_deadline_s(parsed("--deadline 2.5"), 2, 4), Optional(DoubleEq(2.5)));
  EXPECT_THAT(single_deadline_s(parsed("--slowdown 10"), 2, 4), Optional(DoubleEq(2.2)));
  EXPECT_THAT(single_deadline_s(parsed("--straggler 1.5"), 2, 4), Optional(DoubleEq(3)));
  EXPECT_THAT(single_deadline_s(parsed("--straggler 2.5"), 2, 4), Optional(DoubleEq(4))) << "never slower than useful";
}

TEST(Deadlines, ExcludeEachOther) {
  EXPECT_THROW(parsed("--deadline 3 --slowdown 5"), CLI::ParseError);
  EXPECT_THROW(parsed("--straggler 2 --plans 5"), CLI::ParseError);
}

}  // namespace
}  // namespace lowgear::cli

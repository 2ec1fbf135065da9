#include "client/job_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "client/listed_variables.h"

namespace lowgear::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(SearchRequest, ReadsTheBound) {
  EXPECT_EQ(parse_allowed_slowdown_pct("slowdown=2%"), 2);
  EXPECT_EQ(parse_allowed_slowdown_pct("slowdown=0.5"), 0.5);
  for (const char* text : {"2%", "slowdown", "slowdown=", "slowdown=-1", "slowdown=2000", "slowdown=two"}) {
    EXPECT_THAT([&] { (void)parse_allowed_slowdown_pct(text); }, ThrowsMessage<InputError>(HasSubstr("slowdown=2%")))
        << text;
  }
  EXPECT_THAT([] { (void)parse_allowed_slowdown_pct("slowdown=2,5%"); },
              ThrowsMessage<InputError>(HasSubstr("; write 2.5%")));
}

TEST(SearchRequest, ReadsPoints) {
  EXPECT_EQ(parse_points("clock").kind, PointKind::clock);
  EXPECT_THAT(parse_points("clock").values, IsEmpty());
  EXPECT_EQ(parse_points("power-limit=700,600").kind, PointKind::power_limit);
  EXPECT_THAT(parse_points("power-limit=700,600").values, ElementsAre(700, 600));
  EXPECT_THAT(parse_points("clock=1980MHz,1.75GHz").values, ElementsAre(1980, 1750));
  EXPECT_THROW((void)parse_points("watts"), InputError);
  EXPECT_THROW((void)parse_points("clock=1980,fast"), InputError);
  EXPECT_THROW((void)parse_points("clock=1980,0"), InputError);
  EXPECT_THROW((void)parse_points("clock=1980"), InputError);
  EXPECT_THROW((void)parse_points("clock="), InputError);
  EXPECT_THROW((void)parse_points("clock=1530,1980"), InputError);
  EXPECT_THROW((void)parse_points("clock=1980,1530,1530"), InputError);
}

TEST(SearchRequest, IsWhatTheEnvironmentAsksFor) {
  EXPECT_FALSE(search_from_environment(variables({})));
  EXPECT_FALSE(search_from_environment(variables({{"LOWGEAR_SEARCH_POINTS", "clock"}})));
  const auto request = search_from_environment(variables({{"LOWGEAR_SEARCH", "slowdown=3%"},
                                                          {"LOWGEAR_SEARCH_POINTS", "clock=1980,1410"},
                                                          {"LOWGEAR_SEARCH_BLOCK", "5"},
                                                          {"LOWGEAR_SEARCH_RECORD", "/tmp/record"}}));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->allowed_slowdown_pct, 3);
  EXPECT_THAT(request->points.values, ElementsAre(1980, 1410));
  EXPECT_EQ(request->block_s, 5);
  EXPECT_EQ(request->record, "/tmp/record");
  EXPECT_THROW(
      (void)search_from_environment(variables({{"LOWGEAR_SEARCH", "slowdown=3"}, {"LOWGEAR_SEARCH_BLOCK", "x"}})),
      InputError);
}

}  // namespace
}  // namespace lowgear::client

#include "protocol/rank_finish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "protocol/random_document.h"

namespace lowgear::protocol {
namespace {

using testing::HasSubstr;

RankFinish read_finish(const std::string& text, int ranks) {
  const Json body = Json::parse(text);
  return read_rank_finish(JsonView(body, "body"), ranks);
}

TEST(RankFinish, HasOneFormOnTheWire) { EXPECT_EQ(write_rank_finish({.rank = 3}), R"({"rank": 3})"); }

TEST(RankFinish, ReadsBackAnythingThatItWrites) {
  RandomDocument random;
  for (int round = 0; round < kRoundTrips; ++round) {
    const RankFinish finish{.rank = random.whole(0, 99'999)};
    EXPECT_EQ(read_finish(write_rank_finish(finish), 100'000), finish);
  }
}

TEST(RankFinish, RefusesARankThatTheJobDoesNotHave) {
  EXPECT_THAT(error_of([] { (void)read_finish(R"({"rank": 4})", 4); }), HasSubstr("$.rank"));
  EXPECT_THAT(error_of([] { (void)read_finish(R"({"rank": 0, "state": "finished"})", 4); }), HasSubstr("state"));
}

}  // namespace
}  // namespace lowgear::protocol

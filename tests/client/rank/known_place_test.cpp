#include "client/rank/known_place.h"

#include <gmock/gmock.h>

namespace lowgear::client {
namespace {

TEST(KnownPlace, SaysHowItIsKnown) {
  KnownPlace place({.rank = 2, .reason = "pp_rank"}, 2);
  EXPECT_EQ(place.get().pp_rank, 2);
  EXPECT_EQ(place.get().stage, 2);
  EXPECT_EQ(place.get().text, "pp_rank");
}

TEST(KnownPlace, AsksForStagesWhereARankHasSeveral) {
  KnownPlace place({.rank = 2, .reason = "pp_rank"}, 2);
  place.set({.rank = 1, .reason = "plan_rank"}, std::nullopt);
  EXPECT_EQ(place.get().pp_rank, 1);
  EXPECT_FALSE(place.get().stage);
  EXPECT_THAT(place.get().text, testing::HasSubstr("pipeline rank 1 (plan_rank) has more than one stage"));
}

TEST(KnownPlace, SaysWhyItIsNotCertain) {
  const KnownPlace place({.rank = {}, .reason = "pass pp_rank"}, std::nullopt);
  EXPECT_FALSE(place.get().pp_rank);
  EXPECT_EQ(place.get().text, "pass pp_rank");
}

}  // namespace
}  // namespace lowgear::client

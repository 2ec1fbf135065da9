#include "client/steps/told_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::client {
namespace {

using State = StepLengths::State;
using steps::Amounts;
using testing::HasSubstr;

const std::vector<Amounts> kFirst{{10, 60}, {20, 400}};
const std::vector<Amounts> kOther{{30, 900}, {40, 800}};

TEST(ToldLengths, AreKnownOnceEveryReplicaHasToldThem) {
  ToldLengths told(2, 2);
  EXPECT_EQ(told.of(7).state, State::awaited);
  EXPECT_EQ(told.of(7).reason, "its lengths were not told");
  told.tell(7, 1, kOther);
  EXPECT_EQ(told.of(7).state, State::awaited);
  EXPECT_EQ(told.of(7).reason, "its lengths were not told by replica 0");
  EXPECT_TRUE(told.tell(7, 0, kFirst));
  EXPECT_FALSE(told.tell(7, 0, kFirst)) << "a plan that was made of them stays";
  EXPECT_EQ(told.of(7).state, State::known);
  EXPECT_EQ(told.of(7).amounts, (std::vector<Amounts>{{10, 60}, {20, 400}, {30, 900}, {40, 800}})) << "by replica";
  EXPECT_EQ(told.of(8).reason, "its lengths were not told, those of iteration 7 were last");
  told.forget_before(8);
  EXPECT_EQ(told.of(7).state, State::awaited);
}

TEST(ToldLengths, AreInvalidOnceTheyChange) {
  ToldLengths told(1, 2);
  EXPECT_TRUE(told.tell(0, 0, kFirst));
  EXPECT_TRUE(told.tell(0, 0, kOther));
  EXPECT_FALSE(told.tell(0, 0, kFirst));
  EXPECT_EQ(told.of(0).state, State::invalid);
  EXPECT_EQ(told.of(0).reason, "the lengths of replica 0 were changed after they were told");
}

TEST(ToldLengths, HaveToAddUp) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const Amounts& amounts : {Amounts{0, 0}, Amounts{-1, 1}, Amounts{10, 9}, Amounts{10, 101}, Amounts{NAN, 5},
                                 Amounts{5, NAN}, Amounts{infinite, infinite}}) {
    ToldLengths told(1, 2);
    told.tell(0, 0, std::vector{Amounts{10, 60}, amounts});
    EXPECT_EQ(told.of(0).state, State::invalid) << amounts.tokens << ' ' << amounts.squared_tokens;
    EXPECT_THAT(told.of(0).reason, HasSubstr("the lengths of microbatch 1 of replica 0 do not add up"));
  }
  ToldLengths told(2, 2);
  told.tell(0, 1, {});
  EXPECT_EQ(told.of(0).state, State::invalid) << "also before the others have told theirs";
  EXPECT_EQ(told.of(0).reason, "replica 1 told lengths of 0 microbatches, and the schedule has 2");
}

TEST(ToldLengths, AreOfTheReplicasThatThereAre) {
  ToldLengths told(2, 2);
  EXPECT_EQ(error_of([&] { told.tell(0, 2, kFirst); }), "there is no replica 2 of 2");
  EXPECT_EQ(error_of([&] { told.tell(0, -1, kFirst); }), "there is no replica -1 of 2");
  for (std::size_t i = 0; i < ToldLengths::kMostIterations; ++i) told.tell(static_cast<std::int64_t>(i), 0, kFirst);
  EXPECT_THAT(error_of([&] { told.tell(5'000, 0, kFirst); }), HasSubstr("wait for their begin"));
  EXPECT_EQ(error_of([&] { told.tell(5, 1, kFirst); }), "no error");
}

}  // namespace
}  // namespace lowgear::client

#include "client/steps/told_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
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
  BegunSteps begun;
  ToldLengths told(begun, 2, 2);
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
  begun.begins(7 + ToldLengths::kKept);
  EXPECT_EQ(told.of(7).state, State::known) << "it may still be recorded";
  begun.begins(8 + ToldLengths::kKept);
  EXPECT_EQ(told.of(7).state, State::awaited);
}

/// Other documents may follow.
TEST(ToldLengths, BeforeACheckpointAreForgotten) {
  BegunSteps begun;
  ToldLengths told(begun, 1, 2);
  for (std::int64_t iteration = 0; iteration < 5; ++iteration) {
    told.tell(iteration, 0, kFirst);
    begun.begins(iteration);
  }
  told.tell(5, 0, kFirst);
  told.tell(2, 0, kOther);
  told.tell(3, 0, kFirst);
  EXPECT_EQ(told.of(2).reason, "the lengths of replica 0 were changed after they were told")
      << "as long as no iteration repeats";
  begun.begins(2);
  EXPECT_EQ(told.of(1).amounts, kFirst);
  EXPECT_EQ(told.of(2).amounts, kOther) << "told before it began again";
  EXPECT_EQ(told.of(3).amounts, kFirst);
  EXPECT_EQ(told.of(4).state, State::awaited);
  EXPECT_EQ(told.of(5).state, State::awaited) << "told ahead";
  EXPECT_TRUE(told.tell(4, 0, kOther));
  EXPECT_EQ(told.of(4).amounts, kOther);
}

TEST(ToldLengths, AreInvalidOnceTheyChange) {
  BegunSteps begun;
  ToldLengths told(begun, 1, 2);
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
    const BegunSteps begun;
    ToldLengths told(begun, 1, 2);
    told.tell(0, 0, std::vector{Amounts{10, 60}, amounts});
    EXPECT_EQ(told.of(0).state, State::invalid) << amounts.tokens << ' ' << amounts.squared_tokens;
    EXPECT_THAT(told.of(0).reason, HasSubstr("the lengths of microbatch 1 of replica 0 do not add up"));
  }
  BegunSteps begun;
  ToldLengths told(begun, 2, 2);
  told.tell(0, 1, {});
  EXPECT_EQ(told.of(0).state, State::invalid) << "also before the others have told theirs";
  EXPECT_EQ(told.of(0).reason, "replica 1 told lengths of 0 microbatches, and the schedule has 2");
}

TEST(ToldLengths, AreOfTheReplicasThatThereAre) {
  BegunSteps begun;
  ToldLengths told(begun, 2, 2);
  EXPECT_EQ(error_of([&] { told.tell(0, 2, kFirst); }), "there is no replica 2 of 2");
  EXPECT_EQ(error_of([&] { told.tell(0, -1, kFirst); }), "there is no replica -1 of 2");
  for (std::size_t i = 0; i < ToldLengths::kMostIterations; ++i) told.tell(static_cast<std::int64_t>(i), 0, kFirst);
  EXPECT_THAT(error_of([&] { told.tell(5'000, 0, kFirst); }), HasSubstr("wait for their begin"));
  EXPECT_EQ(error_of([&] { told.tell(5, 1, kFirst); }), "no error");
}

}  // namespace
}  // namespace lowgear::client

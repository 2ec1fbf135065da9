#include "base/core/suggestion.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace lowgear {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"steps", "seed", "schedule", "microbatches", "microbatch_size"};

TEST(NearestName, FindsOneWithALetterChangedAddedLeftOutOrSwapped) {
  EXPECT_EQ(nearest_name("stepz", kNames), "steps");
  EXPECT_EQ(nearest_name("stepss", kNames), "steps");
  EXPECT_EQ(nearest_name("step", kNames), "steps");
  EXPECT_EQ(nearest_name("setps", kNames), "steps");
}

TEST(NearestName, TakesTheOneWithFewestEdits) {
  EXPECT_EQ(nearest_name("microbatch", kNames), "microbatches");
  EXPECT_EQ(nearest_name("microbatch_siz", kNames), "microbatch_size");
}

TEST(NearestName, TakesTheFirstOfEquallyNearOnes) {
  constexpr std::array<std::string_view, 2> kAlike = {"tp", "pp"};
  EXPECT_EQ(nearest_name("xp", kAlike), "tp");
}

TEST(NearestName, AllowsAThirdOfTheLettersToBeWrong) {
  EXPECT_EQ(nearest_name("schxxule", kNames), "schedule");  // 2 of 8
  EXPECT_EQ(nearest_name("schxxxle", kNames), std::nullopt);
  EXPECT_EQ(nearest_name("sed", kNames), "seed");
  EXPECT_EQ(nearest_name("ed", kNames), std::nullopt);  // 2 of 2
}

TEST(NearestName, KnowsNothingForNothingAndNonsense) {
  EXPECT_EQ(nearest_name("", kNames), std::nullopt);
  EXPECT_EQ(nearest_name("steps", {}), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(10'000, 's'), kNames), std::nullopt);
}

TEST(NearestName, TakesTheNameItself) { EXPECT_EQ(nearest_name("seed", kNames), "seed"); }

}  // namespace
}  // namespace lowgear

#include "base/core/suggestion.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

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

constexpr std::array<std::string_view, 6> kGpus = {"v100-sxm",  "a100-40gb-sxm", "a100-80gb-pcie",
                                                   "h100-pcie", "gpt2-xl",       "gpt3-1.3b"};

TEST(NearestName, StaysInTheFamily) {
  EXPECT_EQ(nearest_name("a100-sxm", kGpus), "a100-40gb-sxm") << "all words, and one more";
  EXPECT_EQ(nearest_name("a100-pcie", kGpus), "a100-80gb-pcie");
  EXPECT_EQ(nearest_name("gpt3-xl", kGpus), std::nullopt) << "gpt2-xl is another";
  EXPECT_EQ(nearest_name("h100-pci", kGpus), "h100-pcie");
  EXPECT_EQ(nearest_name("w100-sxm", kGpus), "v100-sxm") << "nothing is of that family";
  EXPECT_EQ(nearest_name("micro-batches", kNames), "microbatches") << "begins so, too";
}

TEST(NearestName, TakesOfEquallyNearOnesTheOneThatBeginsAlike) {
  constexpr std::array<std::string_view, 2> kAlike = {"llama27b", "llama38b"};
  EXPECT_EQ(nearest_name("llama37b", kAlike), "llama38b");
}

TEST(NamesOfFamily, BeginWithTheLettersAndDigitsBeforeTheRest) {
  using Names = std::vector<std::string_view>;
  constexpr std::array<std::string_view, 4> kSome = {"a100", "a100-x", "a1000-x", "a40"};
  EXPECT_EQ(names_of_family("a100-y", kSome), (Names{"a100", "a100-x"}));
  EXPECT_EQ(names_of_family("a100y", kSome), (Names{"a100", "a100-x"}));
  EXPECT_EQ(names_of_family("a100", kSome), Names()) << "all of it";
  EXPECT_EQ(names_of_family("100-x", kSome), Names());
  EXPECT_EQ(names_of_family("", kSome), Names());
}

}  // namespace
}  // namespace lowgear

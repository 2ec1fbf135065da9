#include "base/core/text.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace lowgear {
namespace {

/// The bytes of a code point by the definition of UTF-8, without the checks of what may be encoded.
std::string encode(unsigned code_point) {
  const auto tail = [](unsigned bits) { return static_cast<char>(0x80U | (bits & 0x3FU)); };
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  if (code_point < 0x800) return {static_cast<char>(0xC0U | (code_point >> 6U)), tail(code_point)};
  if (code_point < 0x10000) {
    return {static_cast<char>(0xE0U | (code_point >> 12U)), tail(code_point >> 6U), tail(code_point)};
  }
  return {static_cast<char>(0xF0U | (code_point >> 18U)), tail(code_point >> 12U), tail(code_point >> 6U),
          tail(code_point)};
}

TEST(Utf8, TakesEveryCodePointAndNoSurrogate) {
  for (unsigned code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    const std::string bytes = encode(code_point);
    const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
    ASSERT_EQ(utf8_character_size(bytes + "x"), surrogate ? 0 : bytes.size()) << code_point;
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      ASSERT_EQ(utf8_character_size(std::string_view(bytes).substr(0, cut)), 0) << code_point;
    }
  }
}

TEST(Utf8, RefusesBeyondTheLastCodePoint) {
  EXPECT_EQ(utf8_character_size(encode(0x110000)), 0);
  EXPECT_EQ(utf8_character_size("\xF5\x80\x80\x80"), 0);
}

TEST(Utf8, RefusesOverlongForms) {
  EXPECT_EQ(utf8_character_size("\xC0\x80"), 0);
  EXPECT_EQ(utf8_character_size("\xC1\xBF"), 0);
  EXPECT_EQ(utf8_character_size("\xE0\x9F\xBF"), 0);
  EXPECT_EQ(utf8_character_size("\xF0\x8F\xBF\xBF"), 0);
}

TEST(Utf8, RefusesBytesThatStartNoCharacter) {
  EXPECT_EQ(utf8_character_size(""), 0);
  EXPECT_EQ(utf8_character_size("\x80"), 0);
  EXPECT_EQ(utf8_character_size("\xFF"), 0);
  EXPECT_EQ(utf8_character_size("\xC3("), 0);
}

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

TEST(GpuUuid, IsOneTextWhateverItsCase) {
  EXPECT_EQ(normal_gpu_uuid("GPU-0A1B2C3D-4E5F"), "GPU-0a1b2c3d-4e5f");
  EXPECT_EQ(normal_gpu_uuid("gpu-0a1b2c3d-4e5f"), "GPU-0a1b2c3d-4e5f");
  EXPECT_EQ(normal_gpu_uuid("mig-0A1B"), "MIG-0a1b");
}

TEST(GpuUuid, IsOneTextWithoutItsPrefixOrWithBlanksAroundIt) {
  const std::string whole = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
  EXPECT_EQ(normal_gpu_uuid("0A1B2C3D-4e5f-6071-8293-a4b5c6d7e8f9"), whole);
  EXPECT_EQ(normal_gpu_uuid(" " + whole + "\n"), whole);
}

TEST(TextOfFailure, CallsTheUsersStopNoFailure) {
  EXPECT_EQ(text_of_failure("OSError"), "failed (OSError)");
  EXPECT_EQ(text_of_failure("KeyboardInterrupt"), "was stopped by Ctrl-C");
}

TEST(GpuUuid, LeavesOtherTextsAlone) {
  for (const char* const text : {"", " ", "GPU", "Number 3", "MIG-GPU-0A1B/1/0", "GPU-Xyz"}) {
    EXPECT_EQ(normal_gpu_uuid(text), text);
  }
}

}  // namespace

}  // namespace lowgear

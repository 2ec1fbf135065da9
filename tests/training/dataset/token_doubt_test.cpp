#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/dataset/token_file.h"

namespace lowgear::dataset {
namespace {

using std::string_literals::operator""s;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kGpt2Vocabulary = 50257;
constexpr std::int64_t kAnyVocabulary = std::int64_t{1} << 32;

/// Random ids, as a preprocessor has them before it chooses a type.
std::vector<std::int64_t> ids(std::int64_t vocabulary, int count = 1000) {
  std::mt19937 random(1);
  std::vector<std::int64_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<std::int64_t>(random() % vocabulary));
  return tokens;
}

template <typename Number>
std::string bytes_as(const std::vector<std::int64_t>& tokens, bool big_endian = false) {
  std::string bytes;
  for (const std::int64_t token : tokens) {
    const auto number = static_cast<Number>(token);
    std::string one(reinterpret_cast<const char*>(&number), sizeof number);
    bytes += big_endian ? std::string(one.rbegin(), one.rend()) : one;
  }
  return bytes;
}

class TokenDoubt : public ::testing::Test {
 protected:
  [[nodiscard]] std::string refusal(const std::string& bytes, std::optional<TokenType> type,
                                    std::int64_t vocabulary = kAnyVocabulary) const {
    write_file_atomically(folder_ / "t.bin", bytes);
    return error_of([&] { (void)TokenFile::open(folder_ / "t.bin", vocabulary, type); });
  }
  TemporaryFolder folder_;
};

TEST_F(TokenDoubt, TakesTokensAsTheyAre) {
  for (const std::int64_t vocabulary : {5, 256, 50257, 65536}) {
    // Random ids of all 65,536 are random bytes, too.
    const std::int64_t of_two_bytes = std::min<std::int64_t>(vocabulary, 50257);
    EXPECT_EQ(refusal(bytes_as<std::uint16_t>(ids(of_two_bytes)), TokenType::uint16, vocabulary), "no error");
    EXPECT_EQ(refusal(bytes_as<std::uint16_t>(ids(of_two_bytes, 100'000)), TokenType::uint16, vocabulary), "no error");
    EXPECT_EQ(refusal(bytes_as<std::uint32_t>(ids(vocabulary)), TokenType::uint32, vocabulary), "no error");
  }
  EXPECT_EQ(refusal(bytes_as<std::int32_t>(ids(128256)), TokenType::uint32, 128256), "no error");
  EXPECT_EQ(refusal(bytes_as<std::int32_t>(ids(1'000'000, 100'000)), TokenType::uint32), "no error");
}

TEST_F(TokenDoubt, RefusesTheHalvesOfWiderNumbers) {
  const auto halves = HasSubstr(
      "t.bin: read as uint16, its tokens at even and odd places are of different kinds: they "
      "are halves of wider numbers (first: ");
  for (const std::int64_t vocabulary : {256, 50257, 128256}) {
    EXPECT_THAT(refusal(bytes_as<std::int32_t>(ids(vocabulary)), TokenType::uint16), halves) << vocabulary;
    EXPECT_THAT(refusal(bytes_as<std::int64_t>(ids(vocabulary)), TokenType::uint16), halves) << vocabulary;
    EXPECT_THAT(refusal(bytes_as<float>(ids(vocabulary)), TokenType::uint16), halves) << vocabulary;
    EXPECT_THAT(refusal(bytes_as<double>(ids(vocabulary)), TokenType::uint16), halves) << vocabulary;
    EXPECT_THAT(refusal(bytes_as<std::int32_t>(ids(vocabulary), true), TokenType::uint16), halves) << vocabulary;
    EXPECT_THAT(refusal(bytes_as<std::int64_t>(ids(vocabulary)), TokenType::uint32), HasSubstr("halves of wider"));
  }
  EXPECT_THAT(refusal(bytes_as<std::int32_t>(ids(50257, 500'000)), TokenType::uint16), halves) << "more than is read";
  EXPECT_THAT(refusal(bytes_as<std::int32_t>(ids(50257, 16)), TokenType::uint16), halves) << "few tokens";
}

TEST_F(TokenDoubt, RefusesFilesOfWhichHalfIsOneToken) {
  std::vector<std::int64_t> padded = ids(kGpt2Vocabulary);
  padded.resize(2000, 50256);
  EXPECT_THAT(refusal(bytes_as<std::uint16_t>(padded), TokenType::uint16),
              HasSubstr("read as uint16, 1000 of 2000 tokens are 50256; its tokens are of another type, or mostly "
                        "padding"));
  padded.resize(1999);
  EXPECT_EQ(refusal(bytes_as<std::uint16_t>(padded), TokenType::uint16), "no error");
  // Ids so small that nothing but the zeros shows it.
  EXPECT_THAT(refusal(bytes_as<std::int32_t>(ids(3)), TokenType::uint16), HasSubstr("of 2000 tokens are 0"));

  TokenFileWriter writer(folder_ / "header.bin", TokenType::uint16);
  writer.append(std::vector<std::int64_t>(100, 7));
  writer.commit();
  EXPECT_EQ(error_of([&] { (void)TokenFile::open(folder_ / "header.bin", 100); }), "no error") << "its type is certain";
}

TEST_F(TokenDoubt, RefusesPairsOfNarrowerNumbersAndOtherTypes) {
  EXPECT_THAT(refusal(bytes_as<std::uint16_t>(ids(kGpt2Vocabulary)), TokenType::uint32),
              HasSubstr("read as uint32, its tokens are pairs of narrower numbers"));
  EXPECT_THAT(refusal(bytes_as<std::uint16_t>(ids(200)), TokenType::uint32), HasSubstr("pairs of narrower numbers"));
  EXPECT_THAT(refusal(bytes_as<float>(ids(kGpt2Vocabulary)), TokenType::uint32), HasSubstr("beyond any vocabulary"));
  EXPECT_THAT(refusal(bytes_as<std::int32_t>(ids(kGpt2Vocabulary), true), TokenType::uint32),
              HasSubstr("read as uint32"));
}

TEST_F(TokenDoubt, RefusesBigEndianTokens) {
  EXPECT_THAT(refusal(bytes_as<std::uint16_t>(ids(kGpt2Vocabulary), true), TokenType::uint16),
              HasSubstr("the high bytes of its tokens vary more than the low ones: they are big-endian"));
  EXPECT_THAT(refusal(bytes_as<std::uint16_t>(ids(256), true), TokenType::uint16), HasSubstr("big-endian"));
}

TEST_F(TokenDoubt, TakesTokensThatAreAsFrequentAsWords) {
  std::mt19937 random(1);
  for (const int vocabulary : {1000, 32000, 50257, 65536}) {
    std::vector<double> shares;
    for (int i = 0; i < vocabulary; ++i) shares.push_back(1.0 / (i + 2));
    std::discrete_distribution<std::int64_t> words(shares.begin(), shares.end());
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < 5000; ++i) tokens.push_back(words(random));
    EXPECT_EQ(refusal(bytes_as<std::uint16_t>(tokens), TokenType::uint16), "no error") << vocabulary;
    std::vector<std::int64_t> shuffled(static_cast<std::size_t>(vocabulary));
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::ranges::shuffle(shuffled, random);
    for (std::int64_t& token : tokens) token = shuffled[static_cast<std::size_t>(token)];
    EXPECT_EQ(refusal(bytes_as<std::uint16_t>(tokens), TokenType::uint16), "no error") << vocabulary;
  }
}

TEST_F(TokenDoubt, RefusesBytesAsTokensOfTwo) {
  const auto bytes =
      HasSubstr("read as uint16, its tokens are pairs of bytes: their low and high bytes are alike (first: ");
  for (const std::int64_t vocabulary : {60, 200, 256}) {
    for (const int count : {1536, 20000, 300'000}) {
      EXPECT_THAT(refusal(bytes_as<std::uint8_t>(ids(vocabulary, count)), TokenType::uint16), bytes) << vocabulary;
    }
  }
  std::vector<std::int64_t> text = ids(12, 4000);  // of few letters, one more frequent than others
  for (std::int64_t& letter : text) letter = letter < 5 ? 3 : letter;
  EXPECT_THAT(refusal(bytes_as<std::uint8_t>(text), TokenType::uint16), bytes);
  EXPECT_THAT(refusal(bytes_as<std::uint8_t>(ids(200, 4000)), TokenType::uint32), HasSubstr("read as uint32"));
}

TEST_F(TokenDoubt, RefusesFloatingPointNumbersOf16Bits) {
  std::mt19937 random(1);
  std::normal_distribution<float> weights(0, 0.02F);
  std::vector<std::int64_t> bfloats;
  for (int i = 0; i < 4000; ++i) {
    const float weight = weights(random);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &weight, sizeof bits);
    bfloats.push_back(bits >> 16U);
  }
  EXPECT_THAT(refusal(bytes_as<std::uint16_t>(bfloats), TokenType::uint16),
              HasSubstr("read as uint16, its tokens are floating-point numbers: their high bytes are alike with"));
}

TEST_F(TokenDoubt, RefusesTextInUtf16) {
  std::vector<std::int64_t> units;
  for (int i = 0; i < 20; ++i) {
    for (const char letter : "The quick brown fox.\n"s) units.push_back(letter);
  }
  EXPECT_THAT(refusal(bytes_as<std::uint16_t>(units), TokenType::uint16, kGpt2Vocabulary),
              HasSubstr("it is a text in UTF-16, and holds no tokens; make a token file of it with `lowgear data"));
  EXPECT_EQ(refusal(bytes_as<std::uint16_t>(units), TokenType::uint16, 256), "no error") << "a vocabulary of bytes";
  for (const bool big_endian : {false, true}) {
    units.insert(units.begin(), 0xFEFF);
    EXPECT_THAT(refusal(bytes_as<std::uint16_t>(units, big_endian), TokenType::uint16, 256),
                HasSubstr("it is a text in UTF-16"));
    units.erase(units.begin());
  }
}

TEST_F(TokenDoubt, RefusesOtherFilesOfLlmC) {
  // A model, a tokenizer, an evaluation, tokens of a version that there is not.
  for (const auto& [date, version] : {std::pair{20240326, 3}, {20240328, 2}, {20240522, 1}, {20240520, 2}}) {
    std::vector<std::int64_t> words = {date, version};
    words.resize(256, 0);
    EXPECT_THAT(refusal(bytes_as<std::uint32_t>(words) + bytes_as<std::uint16_t>(ids(1000)), TokenType::uint16),
                HasSubstr("t.bin: it is a file of llm.c of another kind (" + std::to_string(date) + ", version"));
  }
}

TEST_F(TokenDoubt, RefusesTokensBeyondTheVocabularyBeforeTraining) {
  EXPECT_THAT(refusal(bytes_as<std::uint16_t>(ids(kGpt2Vocabulary)), TokenType::uint16, 32000),
              AllOf(HasSubstr("(read as uint16), beyond a vocabulary of 32000; use the tokenizer"),
                    HasSubstr("or name the type that its tokens have")));
}

TEST_F(TokenDoubt, RefusesFilesOfOtherKinds) {
  const std::string zeros(64, '\0');
  const auto kind = [&](const std::string& bytes) { return refusal(bytes + zeros, TokenType::uint16); };
  EXPECT_THAT(kind("MMIDIDX\0\0"s), HasSubstr("t.bin: it is an index of Megatron (.idx), and holds no tokens; name"));
  EXPECT_THAT(kind("\x93NUMPY"), HasSubstr("a NumPy array"));
  EXPECT_THAT(kind("\x1f\x8b\x08"), HasSubstr("a gzip archive"));
  EXPECT_THAT(kind("GGUF\3\0\0\0"s), HasSubstr("a GGUF model"));
  EXPECT_THAT(kind("RIFF\x24\0\0\0WAVEfmt "s), HasSubstr("a RIFF file"));
  EXPECT_THAT(kind("\xfd"
                   "7zXZ\0"s),
              HasSubstr("an xz archive"));
  EXPECT_THAT(kind("\x28\xb5\x2f\xfd"), HasSubstr("a zstd archive"));
  EXPECT_THAT(kind("\x89PNG\r\n\x1a\n"), HasSubstr("a PNG image"));
  EXPECT_THAT(kind("PAR1"), HasSubstr("a Parquet table"));
  EXPECT_THAT(kind("PK\3\4"), HasSubstr("a zip archive"));
  EXPECT_THAT(kind("\x10\0\0\0\0\0\0\0{\"a\":{}}"s), HasSubstr("a safetensors file"));
  EXPECT_THAT(refusal("{\"tokens\": [1, 2, 3]}\n", TokenType::uint16), HasSubstr("it is a text, and holds no tokens"));
  EXPECT_THAT(refusal("Übergrößenträger\n", {}), HasSubstr("it is a text"));
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", TokenType::uint16),
              HasSubstr("a Git LFS pointer, not the file itself"));
}

}  // namespace
}  // namespace lowgear::dataset

#include "training/tokenizer/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "training/tokenizer/random_tokenizer.h"

namespace lowgear::tokenizer {

namespace {

using ::testing::ElementsAre;

/// The definition, word for word: look through all neighbours for the pair of lowest rank, merge it where it stands
/// leftmost, begin again. O(n^2) and more.
std::vector<std::int64_t> encode_by_definition(const RandomVocabulary& vocabulary, const std::string& word) {
  std::vector<std::int64_t> tokens;
  for (const char byte : word) tokens.push_back(vocabulary.byte_tokens[static_cast<unsigned char>(byte)]);
  for (;;) {
    std::size_t best_rank = vocabulary.merges.size();
    std::size_t best_place = 0;
    for (std::size_t place = 0; place + 1 < tokens.size(); ++place) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        const BpeMerge& merge = vocabulary.merges[rank];
        if (merge.left == tokens[place] && merge.right == tokens[place + 1]) {
          best_rank = rank;
          best_place = place;
        }
      }
    }
    if (best_rank == vocabulary.merges.size()) return tokens;
    tokens[best_place] = vocabulary.merges[best_rank].merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best_place) + 1);
  }
}

std::vector<std::int64_t> encode(const BpeModel& model, std::string_view word) {
  std::vector<std::int64_t> tokens;
  model.encode(word, tokens);
  return tokens;
}

TEST(BpeModel, MergesAsTheDefinitionSays) {
  std::mt19937 random(1);
  int merged = 0;
  for (int round = 0; round < 200; ++round) {
    const std::string alphabet = round % 2 == 0 ? "ab" : "abcde";
    const RandomVocabulary vocabulary = random_vocabulary(random, 1 + static_cast<int>(random() % 40), alphabet);
    const BpeModel model(vocabulary.byte_tokens, vocabulary.merges);
    for (int i = 0; i < 20; ++i) {
      const std::string word = random_text(random, random() % 60, alphabet);
      const std::vector<std::int64_t> expected = encode_by_definition(vocabulary, word);
      ASSERT_EQ(encode(model, word), expected) << word;
      if (expected.size() < word.size()) ++merged;
    }
  }
  EXPECT_GT(merged, 3000);
}

class SmallModel : public ::testing::Test {
 protected:
  SmallModel() {
    for (std::size_t byte = 0; byte < 256; ++byte) byte_tokens_[byte] = static_cast<std::int32_t>(byte);
  }
  std::array<std::int32_t, 256> byte_tokens_{};
};

TEST_F(SmallModel, TakesTheLeftmostOfEqualPairs) {
  const BpeModel model(byte_tokens_, std::vector<BpeMerge>{{'a', 'a', 256}});
  EXPECT_THAT(encode(model, "aaa"), ElementsAre(256, 'a'));
  EXPECT_THAT(encode(model, "aaaaa"), ElementsAre(256, 256, 'a'));
}

TEST_F(SmallModel, TakesTheLowestRankFirst) {
  const BpeModel model(byte_tokens_, std::vector<BpeMerge>{{'b', 'c', 256}, {'a', 'b', 257}, {257, 'c', 258}});
  EXPECT_THAT(encode(model, "abc"), ElementsAre('a', 256));
  EXPECT_THAT(encode(model, "abd"), ElementsAre(257, 'd'));
}

TEST_F(SmallModel, LeavesWhatItDoesNotKnow) {
  const BpeModel model(byte_tokens_, {});
  EXPECT_THAT(encode(model, ""), ElementsAre());
  EXPECT_THAT(encode(model,
                     "\xff"
                     "a"),
              ElementsAre(255, 'a'));
}

TEST_F(SmallModel, EncodesALongWordQuickly) {
  // 20 doublings: a word of a million letters becomes one token. By the definition it would take 10^12 steps.
  std::vector<BpeMerge> merges{{'a', 'a', 256}};
  for (std::int32_t i = 0; i < 19; ++i) merges.push_back({256 + i, 256 + i, 257 + i});
  const BpeModel model(byte_tokens_, merges);
  EXPECT_THAT(encode(model, std::string(std::size_t{1} << 20, 'a')), ElementsAre(256 + 19));
}

TEST_F(SmallModel, RefusesAPairTwice) {
  EXPECT_THROW(BpeModel(byte_tokens_, std::vector<BpeMerge>{{'a', 'a', 256}, {'a', 'a', 257}}), Error);
}

TEST(ByteAlphabet, WritesBytesAsGpt2Does) {
  EXPECT_EQ(alphabet_from_bytes(" "), "Ġ");
  EXPECT_EQ(alphabet_from_bytes("\n"), "Ċ");
  EXPECT_EQ(alphabet_from_bytes("a~!"), "a~!");
  EXPECT_EQ(alphabet_from_bytes(std::string(1, '\0')), "Ā");
  EXPECT_EQ(alphabet_from_bytes("\x7f"), "ġ");
  EXPECT_EQ(alphabet_from_bytes("\xa0"), "ł");
  EXPECT_EQ(alphabet_from_bytes("\xad"), "Ń");
  EXPECT_EQ(alphabet_from_bytes("ö"), "Ã¶");
}

TEST(ByteAlphabet, ReadsEveryByteBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(bytes_from_alphabet(alphabet_from_bytes(bytes)), bytes);
}

TEST(ByteAlphabet, KnowsWhatIsNotOfIt) {
  for (const char* const token : {"a b", "\n", "ń", "\u0144", "€", "<｜x｜>", "\xff", "\u00ad"}) {
    EXPECT_EQ(bytes_from_alphabet(token), std::nullopt) << token;
  }
}

}  // namespace

}  // namespace lowgear::tokenizer

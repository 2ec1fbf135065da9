#include "training/tokenizer/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "training/tokenizer/random_tokenizer.h"

namespace lowgear::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// 256 bytes with their values as ids, and then: "he" 256, "ll" 257, "hell" 258, " o" 259.
Json hello_json() {
  RandomVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
    vocabulary.byte_tokens[static_cast<std::size_t>(byte)] = byte;
  }
  for (const char* const token : {"he", "ll", "hell", " o"}) vocabulary.tokens.emplace_back(token);
  vocabulary.merges = {{'h', 'e', 256}, {'l', 'l', 257}, {256, 257, 258}, {' ', 'o', 259}};
  return tokenizer_json(vocabulary);
}

BpeTokenizer tokenizer_of(const Json& json) { return {json.dump(), "t.json"}; }

TEST(BpeTokenizer, EncodesWordByWord) {
  const BpeTokenizer tokenizer = tokenizer_of(hello_json());
  EXPECT_EQ(tokenizer.vocabulary_size(), 260);
  EXPECT_THAT(tokenizer.encode("hello o"), ElementsAre(258, 'o', 259));
  // Nothing is merged over the end of a word: a blank belongs to the word after it.
  EXPECT_THAT(tokenizer.encode("h e"), ElementsAre('h', ' ', 'e'));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
}

TEST(BpeTokenizer, GivesAnyBytesBack) {
  std::mt19937 random(8);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  for (int round = 0; round < 30; ++round) {
    Json json = tokenizer_json(random_vocabulary(random, 60, "abc d\n"));
    json["model"]["ignore_merges"] = round % 2 == 0;
    const BpeTokenizer tokenizer = tokenizer_of(json);
    for (const std::string& alphabet : {std::string("abc d\n"), all, std::string("aé你 \xff")}) {
      const std::string text = random_text(random, 300, alphabet);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(BpeTokenizer, TakesWholeWordsWhenMergesAreIgnored) {
  Json json = hello_json();
  json["model"]["vocab"]["hello"] = 260;  // no merge makes it
  EXPECT_THAT(tokenizer_of(json).encode("hello"), ElementsAre(258, 'o'));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(tokenizer_of(json).encode("hello hello"), ElementsAre(260, ' ', 258, 'o'));
}

TEST(BpeTokenizer, FindsAddedTokensInTheText) {
  Json json = hello_json();
  json["added_tokens"] = {{{"id", 300}, {"content", "<|end|>"}, {"special", true}},
                          {{"id", 301}, {"content", "ell"}, {"special", false}},
                          {{"id", 302}, {"content", "<|"}, {"special", false}}};
  const BpeTokenizer tokenizer = tokenizer_of(json);
  EXPECT_EQ(tokenizer.vocabulary_size(), 303);
  EXPECT_THAT(tokenizer.encode("he<|end|>he"), ElementsAre(256, 300, 256));
  EXPECT_THAT(tokenizer.encode("<|end|><|end|>"), ElementsAre(300, 300));
  EXPECT_THAT(tokenizer.encode("hello<|"), ElementsAre('h', 301, 'o', 302));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int64_t>{256, 300, 301}), "he<|end|>ell");
  EXPECT_EQ(error_of([&] {
              (void)tokenizer.decode(std::vector<std::int64_t>{256, 280});
            }),
            "280 is not a token of this vocabulary of 303");
}

TEST(BpeTokenizer, RefusesIdsThatAreNoTokens) {
  const BpeTokenizer tokenizer = tokenizer_of(hello_json());
  EXPECT_THAT(error_of([&] { (void)tokenizer.decode(std::vector<std::int64_t>{-1}); }), HasSubstr("-1 is not a token"));
  EXPECT_THAT(error_of([&] { (void)tokenizer.decode(std::vector<std::int64_t>{260}); }),
              HasSubstr("260 is not a token"));
  EXPECT_THAT(error_of([&] { (void)tokenizer.decode(std::vector<std::int64_t>{INT64_MAX}); }),
              HasSubstr("not a token"));
}

TEST(BpeTokenizer, HandsLongTextsOverInBlocks) {
  const BpeTokenizer tokenizer = tokenizer_of(hello_json());
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += "hello o\n";
  std::vector<std::int64_t> tokens;
  std::size_t bytes = 0;
  std::size_t largest = 0;
  tokenizer.encode(text, [&](std::span<const std::int64_t> block, std::size_t block_bytes) {
    EXPECT_EQ(tokenizer.decode(block), text.substr(bytes, block_bytes));
    tokens.insert(tokens.end(), block.begin(), block.end());
    bytes += block_bytes;
    largest = std::max(largest, block.size());
  });
  EXPECT_EQ(bytes, text.size());
  EXPECT_EQ(tokens.size(), 240'000U);
  EXPECT_LT(largest, 70'000U);
}

TEST(BpeTokenizer, RefusesAWordThatIsNone) {
  const BpeTokenizer tokenizer = tokenizer_of(hello_json());
  EXPECT_THAT(error_of([&] { (void)tokenizer.encode(std::string(kMaxWordBytes + 1, 'x')); }),
              HasSubstr("a word of 4194305 bytes"));
}

/// Tokens that another program made of mixed scripts, white space of all kinds and special tokens:
/// reference/tokens.json says which.
TEST(BpeTokenizer, AgreesWithAnotherProgram) {
  const std::filesystem::path folder = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "tests/training/tokenizer/reference";
  const Json gpt2 = parse_json(read_file(folder / "tokenizer.json"), "tokenizer.json");
  const Json reference = parse_json(read_file(folder / "tokens.json"), "tokens.json");
  Json llama3 = gpt2;
  llama3["pre_tokenizer"] = llama3_pre_tokenizer();
  llama3["model"]["ignore_merges"] = true;
  const BpeTokenizer like_gpt2 = tokenizer_of(gpt2);
  const BpeTokenizer like_llama3 = tokenizer_of(llama3);
  ASSERT_EQ(reference["texts"].size(), 40U);
  for (const Json& entry : reference["texts"]) {
    const auto text = entry["text"].get<std::string>();
    EXPECT_EQ(like_gpt2.encode(text), entry["gpt2"].get<std::vector<std::int64_t>>()) << text;
    EXPECT_EQ(like_llama3.encode(text), entry["llama3"].get<std::vector<std::int64_t>>()) << text;
    EXPECT_EQ(like_gpt2.decode(like_gpt2.encode(text)), text);
  }
}

}  // namespace
}  // namespace lowgear::tokenizer

#include "training/dataset/megatron_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::dataset {
namespace {

using std::string_literals::operator""s;
using ::testing::HasSubstr;

constexpr std::int64_t kIndexedVocabulary = 50257;

template <typename Number>
std::string bytes_of(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

/// Two sequences of 500 tokens, as MMapIndexedDatasetBuilder writes them.
std::string index_bytes(std::uint8_t type, std::int64_t width, std::uint64_t version = 1) {
  return "MMIDIDX\0\0"s + bytes_of(version) + bytes_of(type) + bytes_of<std::uint64_t>(2) + bytes_of<std::uint64_t>(3) +
         bytes_of<std::int32_t>(500) + bytes_of<std::int32_t>(500) + bytes_of<std::int64_t>(0) +
         bytes_of<std::int64_t>(500 * width) + bytes_of<std::int64_t>(0) + bytes_of<std::int64_t>(1) +
         bytes_of<std::int64_t>(2);
}

class MegatronIndexTest : public ::testing::Test {
 protected:
  template <typename Number>
  void write_tokens() const {
    std::mt19937 random(1);
    std::string bytes;
    for (int i = 0; i < 1000; ++i) bytes += bytes_of(static_cast<Number>(random() % kIndexedVocabulary));
    write_file_atomically(folder_ / "megatron.bin", bytes);
  }
  void write_index(const std::string& bytes) const { write_file_atomically(folder_ / "megatron.idx", bytes); }
  [[nodiscard]] TokenFile open(std::optional<TokenType> type = {}) const {
    return TokenFile::open(folder_ / "megatron.bin", kIndexedVocabulary, type);
  }
  [[nodiscard]] std::string refusal(std::optional<TokenType> type = {}) const {
    return error_of([&] { (void)open(type); });
  }
  TemporaryFolder folder_;
};

TEST_F(MegatronIndexTest, SaysTheTypeOfTheTokens) {
  write_tokens<std::int32_t>();
  EXPECT_THAT(refusal(), HasSubstr("no header of a token file"));
  write_index(index_bytes(4, 4));
  for (const std::optional<TokenType> type : {std::optional<TokenType>{}, {TokenType::uint32}}) {
    const TokenFile words = open(type);
    EXPECT_EQ(words.tokens().token_type(), TokenType::uint32);
    EXPECT_EQ(words.token_count(), 1000);
    EXPECT_EQ(words.index(), (folder_ / "megatron.idx").string());
  }
  write_tokens<std::uint16_t>();
  write_index(index_bytes(8, 2));
  EXPECT_EQ(open().tokens().token_type(), TokenType::uint16);
}

TEST_F(MegatronIndexTest, RefusesAContradiction) {
  write_tokens<std::int32_t>();
  write_index(index_bytes(4, 4));
  EXPECT_THAT(refusal(TokenType::uint16),
              HasSubstr("megatron.idx says that the tokens are uint32, not uint16; leave the type of its tokens out"));
  write_index(index_bytes(8, 2));
  EXPECT_THAT(refusal(), HasSubstr("megatron.bin: 4000 bytes, but its index"));
  EXPECT_THAT(refusal(), HasSubstr("megatron.idx counts 2000; one of the two files is truncated"));
}

TEST_F(MegatronIndexTest, RefusesTypesThatAreNotReadAndDamage) {
  write_tokens<std::int32_t>();
  write_index(index_bytes(5, 8));
  EXPECT_THAT(refusal(), HasSubstr("megatron.idx: it says that the tokens are of type 5 (int64); make the token file"));
  write_index(index_bytes(200, 4));
  EXPECT_THAT(refusal(), HasSubstr("of type 200 (unknown)"));
  write_index(index_bytes(4, 4, 2));
  EXPECT_THAT(refusal(), HasSubstr("version 2 of Megatron's index"));
  write_index(index_bytes(4, 4).substr(0, 20));
  EXPECT_THAT(refusal(), HasSubstr("20 bytes, fewer than the header of an index"));
  write_index(index_bytes(4, 4).substr(0, 50));
  EXPECT_THAT(refusal(), HasSubstr("2 sequences in 50 bytes; the index is truncated"));
}

TEST_F(MegatronIndexTest, IsNotWhatMerelyHasItsName) {
  write_tokens<std::uint16_t>();
  write_index("an index of something else");
  EXPECT_THAT(refusal(), HasSubstr("no header of a token file"));
  EXPECT_EQ(open(TokenType::uint16).index(), "");
}

}  // namespace
}  // namespace lowgear::dataset

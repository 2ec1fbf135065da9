#include "training/dataset/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::dataset {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The bytes of a file with a header, written out here by hand.
template <typename Word>
std::string file_bytes(std::int32_t magic, std::int32_t version, std::int32_t count, const std::vector<Word>& tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  return bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Word));
}

std::string gpt2_bytes(const std::vector<std::uint16_t>& tokens) {
  return file_bytes(20240520, 1, static_cast<std::int32_t>(tokens.size()), tokens);
}

std::vector<std::int64_t> all_of(const TokenView& view) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(view.token_count()));
  view.read(0, tokens);
  return tokens;
}

std::string refusal(const std::string& bytes, std::optional<TokenType> headerless = {}) {
  return error_of([&] { (void)TokenView(bytes, "t.bin", 100, headerless); });
}

TEST(TokenView, ReadsBothKindsOfLlmC) {
  const std::string gpt2 = gpt2_bytes({1, 50256, 65535});
  const TokenView shorts(gpt2, "t.bin", 65536);
  EXPECT_THAT(all_of(shorts), ElementsAre(1, 50256, 65535));
  EXPECT_EQ(shorts.token_type(), TokenType::uint16);
  EXPECT_TRUE(shorts.has_header());

  const std::string llama = file_bytes<std::uint32_t>(20240801, 7, 2, {128000, 4294967295});
  const TokenView words(llama, "t.bin", std::int64_t{1} << 32);
  EXPECT_THAT(all_of(words), ElementsAre(128000, 4294967295));
  EXPECT_EQ(words.token_type(), TokenType::uint32);
}

TEST(TokenView, ReadsMarkedTokensAsComplements) {
  const std::string bytes = file_bytes<std::uint32_t>(20240801, 1007, 3, {5, 0x8000'0005, 0x8000'0000});
  const TokenView view(bytes, "t.bin", 6);
  EXPECT_THAT(all_of(view), ElementsAre(5, ~5, ~0));
  EXPECT_EQ(view.marks(), Marks::some);
  EXPECT_EQ(token_id(view[1]), 5);
  const std::string foreign = file_bytes<std::uint32_t>(20240801, 1007, 1, {0x8000'0006});
  EXPECT_THAT(error_of([&] { (void)all_of(TokenView(foreign, "t.bin", 6)); }), HasSubstr("token 0 is 6, beyond"));
  EXPECT_THAT(refusal(file_bytes<std::uint16_t>(20240520, 1007, 1, {1})), HasSubstr("version 1007"));
  EXPECT_THAT(refusal(bytes, TokenType::uint32), HasSubstr("it has a header"));
}

TEST(TokenView, ReadsFilesWithoutHeaderWhenTold) {
  const std::string bytes("\x01\x00\x02\x00\x03\x00\x00\x00", 8);
  EXPECT_THAT(all_of(TokenView(bytes, "t.bin", 100, TokenType::uint16)), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(all_of(TokenView(bytes, "t.bin", 1 << 20, TokenType::uint32)), ElementsAre(0x20001, 3));
  EXPECT_FALSE(TokenView(bytes, "t.bin", 100, TokenType::uint16).has_header());
  EXPECT_EQ(TokenView("", "t.bin", 100, TokenType::uint16).token_count(), 0);
}

TEST(TokenView, ReadsAnyPart) {
  const std::string bytes = gpt2_bytes({10, 11, 12, 13});
  const TokenView view(bytes, "t.bin", 100);
  std::vector<std::int64_t> two(2);
  view.read(1, two);
  EXPECT_THAT(two, ElementsAre(11, 12));
  EXPECT_EQ(view[3], 13);
  view.read(4, std::span<std::int64_t>());
  EXPECT_THROW(view.read(3, two), Error);
  EXPECT_THROW(view.read(-1, two), Error);
  EXPECT_THROW(view.read(INT64_MAX, two), Error);
  EXPECT_THROW((void)view[4], Error);
}

TEST(TokenView, RefusesTokensOutsideTheVocabularyWhereTheyAreRead) {
  const std::string bytes = gpt2_bytes({10, 99, 100, 13});
  const TokenView view(bytes, "t.bin", 100);
  std::vector<std::int64_t> two(2);
  view.read(0, two);
  EXPECT_EQ(error_of([&] { view.read(1, two); }),
            "t.bin: token 2 is 100, beyond a vocabulary of 100; use the tokenizer and the model that the file was made "
            "for");
}

TEST(TokenView, RefusesFilesThatAreNotWhole) {
  const std::string good = gpt2_bytes({1, 2, 3});
  EXPECT_EQ(refusal(good), "no error");
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("says 3 uint16 tokens, but 5 bytes follow"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 2)), HasSubstr("says 3 uint16 tokens, but 4 bytes follow"));
  EXPECT_THAT(refusal(good + "xx"), HasSubstr("8 bytes follow"));
  EXPECT_THAT(refusal(good.substr(0, 1023)),
              HasSubstr("1023 bytes, fewer than its header of 1024; the file is truncated"));
  EXPECT_THAT(refusal(good.substr(0, 4)), HasSubstr("truncated"));
  EXPECT_THAT(refusal("abc", TokenType::uint16), HasSubstr("3 bytes are not a whole number of uint16 tokens"));
}

TEST(TokenView, RefusesHeadersThatItDoesNotKnow) {
  EXPECT_THAT(refusal(""), HasSubstr("no header of a token file; make one with `lowgear data tokenize`"));
  EXPECT_THAT(refusal("a text"), HasSubstr("no header"));
  EXPECT_THAT(refusal(file_bytes<std::uint16_t>(20240522, 1, 0, {})), HasSubstr("no header"));
  EXPECT_THAT(refusal(file_bytes<std::uint16_t>(20240520, 2, 0, {})), HasSubstr("version 2 of the token format"));
  EXPECT_THAT(refusal(file_bytes<std::uint16_t>(20240520, 1, -1, {})), HasSubstr("says -1"));
  EXPECT_THAT(refusal(file_bytes<std::uint32_t>(20240801, 7, INT32_MAX, {1})), HasSubstr("says 2147483647"));
  EXPECT_THAT(refusal(gpt2_bytes({1}), TokenType::uint16), HasSubstr("it has a header"));
  EXPECT_THAT(error_of([] { (void)TokenView(gpt2_bytes({1}), "t.bin", 0); }), HasSubstr("a vocabulary of 0"));
}

class TokenFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return (folder_ / "t.bin").string(); }
  TemporaryFolder folder_;
};

TEST_F(TokenFileTest, WritesMarkedTokens) {
  TokenFileWriter writer(path(), TokenType::uint32, Marks::some);
  writer.append(std::vector<std::int64_t>{~0, 7, ~INT32_MAX, INT32_MAX});
  EXPECT_THAT(error_of([&] { writer.append(std::vector<std::int64_t>{std::int64_t{1} << 31}); }),
              HasSubstr("does not fit"));
  writer.commit();
  EXPECT_THAT(all_of(TokenFile::open(path(), std::int64_t{1} << 31).tokens()),
              ElementsAre(~0, 7, ~std::int64_t{INT32_MAX}, INT32_MAX));
}

TEST_F(TokenFileTest, WritesWhatIsReadBack) {
  std::vector<std::int64_t> tokens(1'000'000);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (std::int64_t& token : tokens) token = token * 7919 % 65536;
  TokenFileWriter writer(path(), TokenType::uint16);
  writer.append(std::span(tokens).first(10));
  writer.append(std::span(tokens).subspan(10));
  EXPECT_EQ(writer.token_count(), 1'000'000);
  EXPECT_FALSE(std::filesystem::exists(path()));
  writer.commit();
  EXPECT_EQ(std::filesystem::file_size(path()), 1024U + 2'000'000U);
  TokenFile opened = TokenFile::open(path(), 65536);
  const TokenFile moved = std::move(opened);
  EXPECT_EQ(all_of(moved.tokens()), tokens);
  EXPECT_EQ(moved[999'999], tokens.back());
}

TEST_F(TokenFileTest, WritesTheHeaderOfLlmC) {
  TokenFileWriter shorts(path(), TokenType::uint16);
  shorts.append(std::vector<std::int64_t>{1, 50256});
  shorts.commit();
  EXPECT_EQ(read_file(path()), gpt2_bytes({1, 50256}));
  TokenFileWriter words(path(), TokenType::uint32);
  words.append(std::vector<std::int64_t>{128000});
  words.commit();
  EXPECT_EQ(read_file(path()), (file_bytes<std::uint32_t>(20240801, 7, 1, {128000})));
}

TEST_F(TokenFileTest, LeavesTheOldFileUntilAllIsWritten) {
  write_file_atomically(path(), "before");
  {
    TokenFileWriter writer(path(), TokenType::uint16);
    EXPECT_THAT(error_of([&] {
                  writer.append(std::vector<std::int64_t>{1, 65536});
                }),
                HasSubstr("token 1 is 65536, which does not fit into uint16"));
    EXPECT_THAT(error_of([&] { writer.append(std::vector<std::int64_t>{-1}); }), HasSubstr("is -1"));
  }
  EXPECT_EQ(read_file(path()), "before");
  EXPECT_THAT(folder_.names(), ElementsAre("t.bin"));
}

TEST_F(TokenFileTest, HoldsAnEmptyText) {
  TokenFileWriter writer(path(), TokenType::uint32);
  writer.commit();
  EXPECT_EQ(TokenFile::open(path(), 10).token_count(), 0);
}

TEST_F(TokenFileTest, TellsWhyAFileCannotBeOpened) {
  const auto refused = [](const std::filesystem::path& file) {
    return error_of([&] { (void)TokenFile::open(file, 100); });
  };
  EXPECT_THAT(refused(folder_ / "missing"), HasSubstr("missing: cannot be read: No such file or directory"));
  EXPECT_THAT(refused(folder_.path()), HasSubstr("not a regular file"));
  write_file_atomically(path(), "");
  EXPECT_THAT(refused(path()), HasSubstr("no header of a token file"));
  EXPECT_THAT(error_of([&] { TokenFileWriter(folder_ / "no" / "t.bin", TokenType::uint16); }),
              HasSubstr("cannot be written"));
}

TEST(TokenType, TheSmallestThatHoldsAVocabulary) {
  EXPECT_EQ(token_type_for(256), TokenType::uint16);
  EXPECT_EQ(token_type_for(65536), TokenType::uint16);
  EXPECT_EQ(token_type_for(65537), TokenType::uint32);
}

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

#include "training/dataset/token_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/dataset/batch_sampler.h"

namespace lowgear::dataset {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kTextVocabulary = 10'000;

/// Rising numbers from `first` on: what is read tells where in the text it stood.
std::vector<std::int64_t> numbers(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class TokenFilesTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, TokenType type, const std::vector<std::int64_t>& tokens) {
    TokenFileWriter writer(folder_ / name, type);
    writer.append(tokens);
    writer.commit();
    return folder_ / name;
  }
  std::filesystem::path write_without_header(const std::string& name, const std::vector<std::int64_t>& tokens) {
    const std::string bytes = read_file(write(name, TokenType::uint16, tokens));
    write_file_atomically(folder_ / name, bytes.substr(kTokenHeaderBytes));
    return folder_ / name;
  }
  /// The numbers 0 to 99 in files of 40, 0, 1, and 59.
  std::vector<std::filesystem::path> write_in_pieces() {
    return {write("0.bin", TokenType::uint16, numbers(0, 40)), write("1.bin", TokenType::uint16, {}),
            write("2.bin", TokenType::uint32, numbers(40, 1)), write("3.bin", TokenType::uint16, numbers(41, 59))};
  }

  TemporaryFolder folder_;
};

TEST_F(TokenFilesTest, AreOneTextInTheirOrder) {
  TokenFiles opened = TokenFiles::open(write_in_pieces(), kTextVocabulary);
  const TokenFiles files = std::move(opened);
  ASSERT_EQ(files.text().token_count(), 100);
  for (std::int64_t first = 0; first <= 100; ++first) {
    for (std::int64_t count = 0; count <= 100 - first; ++count) {
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
      files.text().read(first, tokens);
      ASSERT_EQ(tokens, numbers(first, count));
    }
  }
}

TEST_F(TokenFilesTest, GiveTheSamplesOfOneFileThatHoldsAll) {
  const BatchSamplerOptions options{.sequence_length = 7, .global_batch = 5, .seed = 3};
  const TokenFiles pieces = TokenFiles::open(write_in_pieces(), kTextVocabulary);
  const TokenFile whole = TokenFile::open(write("whole.bin", TokenType::uint16, numbers(0, 100)), kTextVocabulary);
  const BatchSampler of_pieces(pieces.text(), options);
  const BatchSampler of_whole(whole.tokens(), options);
  ASSERT_EQ(of_pieces.window_count(), of_whole.window_count());
  std::vector<std::int64_t> samples(5 * 8);
  std::vector<std::int64_t> expected(5 * 8);
  for (std::int64_t step = 0; step < 6; ++step) {
    of_pieces.read(step, {.first = 0, .count = 5}, samples);
    of_whole.read(step, {.first = 0, .count = 5}, expected);
    EXPECT_EQ(samples, expected) << step;
  }
}

TEST_F(TokenFilesTest, HaveTheFingerprintOfOneFileThatHoldsAll) {
  const TokenFiles pieces = TokenFiles::open(write_in_pieces(), kTextVocabulary);
  const TokenFile whole = TokenFile::open(write("whole.bin", TokenType::uint16, numbers(0, 100)), kTextVocabulary);
  EXPECT_EQ(pieces.text().fingerprint(), TokenText(whole.tokens()).fingerprint());
}

TEST_F(TokenFilesTest, HaveAFingerprintOfTheirOwn) {
  const auto fingerprint = [this](const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& second) {
    const std::vector<std::filesystem::path> paths = {write("0.bin", TokenType::uint16, first),
                                                      write("1.bin", TokenType::uint16, second)};
    return TokenFiles::open(paths, kTextVocabulary).text().fingerprint();
  };
  const std::uint32_t own = fingerprint(numbers(0, 5000), numbers(100, 5000));
  EXPECT_EQ(fingerprint(numbers(0, 5000), numbers(100, 5000)), own);
  EXPECT_NE(fingerprint(numbers(100, 5000), numbers(0, 5000)), own) << "another order";
  EXPECT_NE(fingerprint(numbers(0, 5000), numbers(200, 5000)), own) << "another second file";
  EXPECT_EQ(fingerprint({}, {}), 2'166'136'261U) << "nothing hashed";
  EXPECT_EQ(fingerprint({97}, {12'000}), fingerprint({97, 12'000}, {})) << "whatever the vocabulary";
}

/// What it is must never change, or checkpoints of another version would be of another text.
TEST_F(TokenFilesTest, HaveAFixedFingerprint) {
  const TokenFile file = TokenFile::open(write("0.bin", TokenType::uint16, numbers(0, 3000)), kTextVocabulary);
  EXPECT_EQ(TokenText(file.tokens()).fingerprint(), 1663832773U);
}

TEST_F(TokenFilesTest, MayAllLackAHeader) {
  const std::vector<std::filesystem::path> paths = {write_without_header("0.bin", numbers(0, 3)),
                                                    write_without_header("1.bin", numbers(3, 4))};
  const TokenFiles files = TokenFiles::open(paths, kTextVocabulary, TokenType::uint16);
  std::vector<std::int64_t> tokens(7);
  files.text().read(0, tokens);
  EXPECT_EQ(tokens, numbers(0, 7));
  EXPECT_THAT(
      error_of([&] { (void)TokenFiles::open(paths, kTextVocabulary); }),
      AllOf(HasSubstr(paths[0].string()), HasSubstr("name the type of a file without header (data.token_type")));
}

TEST_F(TokenFilesTest, ThatAreWrongAreNamed) {
  const auto good = write("good.bin", TokenType::uint16, numbers(0, 5));
  const auto refused = [&](const std::filesystem::path& second, std::optional<TokenType> headerless = {}) {
    return error_of([&] { (void)TokenFiles::open(std::vector{good, second}, kTextVocabulary, headerless); });
  };
  EXPECT_THAT(refused(folder_ / "absent.bin"), HasSubstr((folder_ / "absent.bin").string() + ": cannot be read"));
  EXPECT_THAT(refused(write_without_header("raw.bin", numbers(0, 5))),
              HasSubstr((folder_ / "raw.bin").string() + ": no header"));
  EXPECT_THAT(refused(folder_ / "raw.bin", TokenType::uint16), HasSubstr(good.string() + ": it has a header"));
}

TEST_F(TokenFilesTest, NameTheFileOfATokenOutsideTheVocabulary) {
  const std::vector<std::filesystem::path> paths = {write("0.bin", TokenType::uint16, numbers(0, 5)),
                                                    write("1.bin", TokenType::uint16, {1, 2, 12'000})};
  const TokenFiles files = TokenFiles::open(paths, kTextVocabulary);
  std::vector<std::int64_t> tokens(8);
  EXPECT_THAT(error_of([&] { files.text().read(0, tokens); }),
              HasSubstr(paths[1].string() + ": token 2 is 12000, beyond a vocabulary of 10000"));
}

TEST_F(TokenFilesTest, OfTooFewTokensSayHowMany) {
  const TokenFiles files = TokenFiles::open(write_in_pieces(), kTextVocabulary);
  EXPECT_THAT(error_of([&] { (void)BatchSampler(files.text(), {.sequence_length = 100, .global_batch = 1}); }),
              HasSubstr("0.bin and 3 more: 100 tokens are too few for a sequence of 100"));
  std::vector<std::int64_t> tokens(2);
  EXPECT_THROW(files.text().read(99, tokens), Error);
  EXPECT_THROW(files.text().read(-1, tokens), Error);
  EXPECT_THROW(files.text().read(INT64_MAX, tokens), Error);
}

TEST_F(TokenFilesTest, AreSomeAndNotTooMany) {
  const auto error = [](std::size_t count) {
    return error_of(
        [&] { (void)TokenFiles::open(std::vector<std::filesystem::path>(count, "absent"), kTextVocabulary); });
  };
  EXPECT_EQ(error(0), "a text of 0 token files; give 1 to 4096");
  EXPECT_EQ(error(kMaxTextFiles + 1), "a text of 4097 token files; give 1 to 4096");
  EXPECT_THAT(error(kMaxTextFiles), HasSubstr("absent: cannot be read"));
}

}  // namespace
}  // namespace lowgear::dataset

#include "training/dataset/synthetic_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/dataset/token_file.h"
#include "training/tokenizer/tokenizer.h"

namespace lowgear::dataset {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

std::string text_of(std::uint64_t seed, std::size_t bytes) {
  SyntheticCorpus corpus(seed);
  std::string text;
  while (text.size() < bytes) text += corpus.next_sentence();
  return text;
}

/// Nats per byte that a model which has counted what follows each context of `order` bytes in the first half of the
/// text needs for the second half; unseen bytes have the weight of one among 256.
double loss_nats(const std::string& text, std::size_t order) {
  std::map<std::string, std::map<char, double>> counts;
  std::map<std::string, double> totals;
  double loss = 0;
  const std::size_t half = text.size() / 2;
  for (std::size_t i = order; i < text.size(); ++i) {
    const std::string context = text.substr(i - order, order);
    if (i >= half) loss -= std::log((counts[context][text[i]] + 1.0 / 256) / (totals[context] + 1));
    if (i < half) {
      ++counts[context][text[i]];
      ++totals[context];
    }
  }
  return loss / static_cast<double>(text.size() - half);
}

TEST(SyntheticCorpus, FollowsFromTheSeed) {
  EXPECT_EQ(text_of(1, 10'000), text_of(1, 10'000));
  EXPECT_NE(text_of(1, 10'000), text_of(2, 10'000));
}

/// The text must never change: figures are compared over versions.
TEST(SyntheticCorpus, IsFixed) {
  EXPECT_EQ(SyntheticCorpus(1).next_sentence(), "Didako funovo vukete dimotu vukete dimotu fukedi samovi.\n");
}

TEST(SyntheticCorpus, IsMadeOfSentences) {
  SyntheticCorpus corpus(3);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(corpus.next_sentence(), MatchesRegex("[A-Z][a-z]+( [a-z]+)+\\.\n"));
  }
}

/// A uniform guess needs ln 256 = 5.5 nats per byte.
TEST(SyntheticCorpus, HasSomethingToLearnAtEveryLength) {
  const std::string text = text_of(1, 400'000);
  EXPECT_NEAR(loss_nats(text, 0), 2.8, 0.2);
  EXPECT_NEAR(loss_nats(text, 2), 1.5, 0.2);
  EXPECT_LT(loss_nats(text, 6), 0.6);
}

class WriteSyntheticCorpus : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(WriteSyntheticCorpus, WritesSoManyTokens) {
  write_synthetic_corpus(folder_ / "s.bin", 12'345, 7);
  const TokenFile file = TokenFile::open(folder_ / "s.bin", 256);
  ASSERT_EQ(file.token_count(), 12'345);
  EXPECT_EQ(file.tokens().token_type(), TokenType::uint16);
  std::vector<std::int64_t> tokens(12'345);
  file.read(0, tokens);
  EXPECT_EQ(tokenizer::ByteTokenizer().decode(tokens), text_of(7, 13'000).substr(0, 12'345));
}

TEST_F(WriteSyntheticCorpus, RefusesNumbersThatNoFileHolds) {
  const auto refusal = [&](std::int64_t tokens) {
    return error_of([&] { write_synthetic_corpus(folder_ / "s.bin", tokens, 1); });
  };
  EXPECT_THAT(refusal(0), HasSubstr("cannot write 0 tokens"));
  EXPECT_THAT(refusal(-5), HasSubstr("give 1 to 2147483647"));
  EXPECT_THAT(refusal(std::int64_t{1} << 31), HasSubstr("2147483648"));
  EXPECT_THAT(folder_.names(), IsEmpty());
}

}  // namespace
}  // namespace lowgear::dataset

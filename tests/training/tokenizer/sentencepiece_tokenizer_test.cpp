#include "training/tokenizer/sentencepiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "training/dataset/synthetic_corpus.h"

namespace lowgear::tokenizer {
namespace {

using ::testing::HasSubstr;

/// Made-up sentences for the library's trainer.
class Sentences final : public sentencepiece::SentenceIterator {
 public:
  [[nodiscard]] bool done() const override { return left_ == 0; }
  void Next() override {
    --left_;
    take();
  }
  [[nodiscard]] const std::string& value() const override { return sentence_; }
  [[nodiscard]] sentencepiece::util::Status status() const override { return {}; }

 private:
  void take() {
    sentence_ = corpus_.next_sentence();
    sentence_.pop_back();  // the line end
  }

  dataset::SyntheticCorpus corpus_{1};
  int left_ = 300;
  std::string sentence_ = "Begin.";
};

std::string trained_model(const std::string& type) {
  Sentences sentences;
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--vocab_size=400 --byte_fallback=true --normalization_rule_name=identity "
      "--remove_extra_whitespaces=false --num_threads=1 --minloglevel=2 --model_type=" +
          type,
      &sentences, &model);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return model;
}

class SentencePieceTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SentencePieceTest, EncodesAndDecodes) {
  const SentencePieceTokenizer tokenizer(trained_model(GetParam()), "t.model");
  EXPECT_EQ(tokenizer.vocabulary_size(), 400);
  const std::string text = dataset::SyntheticCorpus(1).next_sentence() + "Ünknown\n";
  const std::vector<std::int64_t> tokens = tokenizer.encode(text);
  EXPECT_LT(tokens.size(), text.size());
  for (const std::int64_t token : tokens) EXPECT_TRUE(token >= 0 && token < 400);
  EXPECT_EQ(tokenizer.decode(tokens), text);
}

INSTANTIATE_TEST_SUITE_P(Types, SentencePieceTest, ::testing::Values("bpe", "unigram"));

TEST(SentencePieceTokenizer, RefusesIdsAndModelsThatAreNone) {
  const SentencePieceTokenizer tokenizer(trained_model("bpe"), "t.model");
  EXPECT_EQ(error_of([&] { (void)tokenizer.decode(std::vector<std::int64_t>{400}); }),
            "token 400 is not in the vocabulary of 400 of t.model");
  EXPECT_THAT(error_of([&] { (void)tokenizer.decode(std::vector<std::int64_t>{-1}); }), HasSubstr("token -1"));
  EXPECT_THAT(error_of([&] { (void)tokenizer.encode(std::string(kMaxSentencePieceBytes + 1, 'x')); }),
              HasSubstr("split the text"));
  for (const char* const model : {"", "no model", "{\"model\": {}}"}) {
    EXPECT_THAT(error_of([&] { (void)SentencePieceTokenizer(model, "t.model"); }),
                HasSubstr("t.model: no model of SentencePiece"));
  }
}

}  // namespace
}  // namespace lowgear::tokenizer

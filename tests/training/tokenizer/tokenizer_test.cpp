#include "training/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/tokenizer/random_tokenizer.h"

namespace lowgear::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ByteTokenizer, EveryByteIsAToken) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocabulary_size(), 256);
  EXPECT_THAT(tokenizer.encode("aé\n"), ElementsAre('a', 0xC3, 0xA9, '\n'));
  std::string all;
  for (int i = 0; i < 200'000; ++i) all.push_back(static_cast<char>(i * 7 % 256));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all)), all);
  EXPECT_EQ(tokenizer.encode("").size(), 0U);
}

TEST(ByteTokenizer, RefusesWhatIsNoByte) {
  EXPECT_EQ(error_of([] { (void)ByteTokenizer().decode(std::vector<std::int64_t>{256}); }),
            "token 256 is not a byte; give 0 to 255");
  EXPECT_THAT(error_of([] { (void)ByteTokenizer().decode(std::vector<std::int64_t>{-1}); }), HasSubstr("-1"));
}

TEST(OpenTokenizer, TakesBytesOrAFile) {
  EXPECT_EQ(open_tokenizer("bytes")->vocabulary_size(), 256);
  const TemporaryFolder folder;
  std::mt19937 random(1);
  const RandomVocabulary vocabulary = random_vocabulary(random, 20, "ab");
  write_file_atomically(folder / "tokenizer.json", tokenizer_json(vocabulary).dump());
  EXPECT_EQ(open_tokenizer(folder / "tokenizer.json")->vocabulary_size(),
            static_cast<std::int64_t>(vocabulary.tokens.size()));
  write_file_atomically(folder / "t.model", "no model");
  EXPECT_THAT(error_of([&] { (void)open_tokenizer(folder / "t.model"); }), HasSubstr("no model of SentencePiece"));
  EXPECT_THAT(error_of([&] { (void)open_tokenizer(folder / "missing.json"); }), HasSubstr("cannot be read"));
  for (const char* name : {"lfs.json", "lfs.model"}) {
    write_file_atomically(folder / name, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
    EXPECT_THAT(error_of([&] { (void)open_tokenizer(folder / name); }), HasSubstr("a Git LFS pointer")) << name;
  }
}

}  // namespace
}  // namespace lowgear::tokenizer

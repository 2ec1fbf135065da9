#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "training/tokenizer/random_tokenizer.h"

namespace lowgear::operations {
namespace {

using cli::json_of;
using cli::lines_of;
using cli::ProgramResult;
using cli::run_lowgear;
using cli::write_text;
using ::testing::HasSubstr;

class DataCommand : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// `lowgear data ARGUMENTS --json`, which must succeed.
  [[nodiscard]] static Json json(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "data");
    return json_of(std::move(arguments));
  }
  /// What `lowgear data` says when it refuses.
  void expect_refused(std::vector<std::string> arguments, const char* why) const {
    const std::vector<std::string> before = folder_.names();
    arguments.insert(arguments.begin(), "data");
    const ProgramResult result = run_lowgear(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(folder_.names(), before);
  }

  TemporaryFolder folder_;
};

TEST_F(DataCommand, TokenizesBytes) {
  write_text(folder_ / "a.txt", "ab");
  write_text(folder_ / "b.txt", "é");
  const Json made = json(
      {"tokenize", "--tokenizer", "bytes", "--separator", "\n", "--out", path("t.bin"), path("a.txt"), path("b.txt")});
  EXPECT_EQ(made["tokens"], 6);
  EXPECT_EQ(made["token_type"], "uint16");
  EXPECT_EQ(made["text_bytes"], 4);
  EXPECT_EQ(made["vocabulary_size"], 256);
  const Json shown = json({"show", "--tokenizer", "bytes", path("t.bin")});
  EXPECT_EQ(shown["tokens"], 6);
  EXPECT_EQ(shown["header"], true);
  EXPECT_EQ(shown["highest_token"], 0xC3);
  EXPECT_EQ(shown["first_tokens"], (Json{'a', 'b', '\n', 0xC3, 0xA9, '\n'}));
  EXPECT_EQ(shown["first_text"], "ab\né\n");
}

TEST_F(DataCommand, TokenizesByATokenizerJson) {
  std::mt19937 random(1);
  tokenizer::RandomVocabulary vocabulary = tokenizer::random_vocabulary(random, 0, "ab");
  vocabulary.tokens.emplace_back("ab");
  vocabulary.merges = {{vocabulary.byte_tokens['a'], vocabulary.byte_tokens['b'], 256}};
  Json tokenizer = tokenizer_json(vocabulary);
  tokenizer["added_tokens"] = {{{"id", 65'700}, {"content", "<|endoftext|>"}, {"special", true}}};
  write_text(folder_ / "tokenizer.json", tokenizer.dump());
  write_text(folder_ / "a.txt", "abab");
  const Json made = json({"tokenize", "--tokenizer", path("tokenizer.json"), "--separator", "<|endoftext|>", "--out",
                          path("t.bin"), path("a.txt")});
  EXPECT_EQ(made["token_type"], "uint32");
  EXPECT_EQ(json({"show", path("t.bin")})["first_tokens"], (Json{256, 256, 65'700}));
}

TEST_F(DataCommand, TokenizesConversations) {
  write_text(folder_ / "a.jsonl", R"({"question": "1+1?", "answer": "2"})"
                                  "\n"
                                  R"({"question": "2?", "answer": "2"})"
                                  "\n");
  const Json made = json({"tokenize", "--chat", "plain", "--tokenizer", "bytes", "--separator", "$", "--out",
                          path("t.bin"), path("a.jsonl")});
  EXPECT_EQ(made["tokens"], 14);
  EXPECT_EQ(made["counted_tokens"], 6);
  EXPECT_EQ(made["token_type"], "uint32");
  const Json shown = json({"show", "--tokenizer", "bytes", path("t.bin")});
  EXPECT_EQ(shown["first_text"], "1+1?\n2\n$2?\n2\n$");
  EXPECT_EQ(shown["counted_tokens"], 6);
  EXPECT_EQ(shown["highest_token"], '?');
  // The second one, of 6 tokens, does not fit after the first one, of 8.
  (void)json({"tokenize", "--chat", "plain", "--tokenizer", "bytes", "--separator", "$", "--sequence-length", "10",
              "--out", path("w.bin"), path("a.jsonl")});
  EXPECT_EQ(json({"show", "--tokenizer", "bytes", path("w.bin")})["first_text"],
            std::string("1+1?\n2\n$\0\0002?\n2\n$", 16));
}

TEST_F(DataCommand, SkipsBlankLinesOfConversations) {
  write_text(folder_ / "a.jsonl",
             "\n"
             R"({"question": "1+1?", "answer": "2"})"
             "\n \r\n");
  const ProgramResult made = run_lowgear({"data", "tokenize", "--chat", "plain", "--tokenizer", "bytes", "--separator",
                                          "$", "--out", path("t.bin"), path("a.jsonl")});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("blank lines were skipped: 2"));
  EXPECT_THAT(made.out, HasSubstr("8 tokens"));
}

TEST_F(DataCommand, RefusesWhatIsNoConversation) {
  write_text(folder_ / "role.jsonl", R"({"question": "1+1?", "answer": "2"})"
                                     "\n"
                                     R"({"messages": [{"role": "tool", "content": "2"}]})");
  const auto tokenize = [&](const std::string& file, const char* chat) {
    return std::vector<std::string>{"tokenize", "--chat", chat,          "--tokenizer",
                                    "bytes",    "--out",  path("t.bin"), path(file)};
  };
  expect_refused(tokenize("role.jsonl", "plain"), "role.jsonl:2: $.messages[0].role: the template plain has no role");
  expect_refused(tokenize("role.jsonl", "chatml"), "bytes: no token \"<|im_start|>\"");
  expect_refused(tokenize("role.jsonl", "alpaca"), "chatml or llama-3 or plain");
  write_text(folder_ / "text.jsonl", "Once upon a time");
  expect_refused(tokenize("text.jsonl", "plain"), "text.jsonl:1:1");
  expect_refused(
      {"tokenize", "--sequence-length", "8", "--tokenizer", "bytes", "--out", path("t.bin"), path("text.jsonl")},
      "add --chat");
}

TEST_F(DataCommand, MakesTextUp) {
  const Json made = json({"synthetic", "--tokens", "1000", "--seed", "3", "--out", path("s.bin")});
  EXPECT_EQ(made["tokens"], 1000);
  EXPECT_EQ(made["synthetic"], true);
  (void)json({"synthetic", "--tokens", "1000", "--seed", "3", "--out", path("again.bin")});
  (void)json({"synthetic", "--tokens", "1000", "--seed", "4", "--out", path("other.bin")});
  EXPECT_EQ(read_file(path("s.bin")), read_file(path("again.bin")));
  EXPECT_NE(read_file(path("s.bin")), read_file(path("other.bin")));
}

TEST_F(DataCommand, SaysWhatItDidInText) {
  const ProgramResult made = run_lowgear({"data", "synthetic", "--tokens", "50", "--out", path("s.bin")});
  EXPECT_THAT(made.out, HasSubstr("s.bin: 50 tokens of synthetic text"));
  const ProgramResult shown = run_lowgear({"data", "show", path("s.bin"), "--tokenizer", "bytes", "--first", "3"});
  EXPECT_THAT(shown.out, HasSubstr("s.bin: 50 tokens (uint16, with header); the highest is "));
  EXPECT_THAT(shown.out, HasSubstr("first: 68 105 100\ntext: \"Did\"\n"));
  write_text(folder_ / "empty.txt", "");
  const ProgramResult empty =
      run_lowgear({"data", "tokenize", "--tokenizer", "bytes", "--out", path("e.bin"), path("empty.txt")});
  EXPECT_EQ(empty.exit_code, 0);
  EXPECT_THAT(empty.err, HasSubstr("no token"));
  EXPECT_EQ(json({"show", path("e.bin")})["highest_token"], nullptr);
}

TEST_F(DataCommand, ShowsFilesWithoutHeader) {
  write_text(folder_ / "raw.bin", std::string("\x01\x00\x02\x00", 4));
  const Json shown = json({"show", "--token-type", "uint16", path("raw.bin")});
  EXPECT_EQ(shown["header"], false);
  EXPECT_EQ(shown["first_tokens"], (Json{1, 2}));
  expect_refused({"show", path("raw.bin")}, "no header of a token file");
  expect_refused({"show", "--token-type", "uint64", path("raw.bin")}, "uint16 or uint32");
}

TEST_F(DataCommand, SaysInWhichTextAWordIsTooLong) {
  std::mt19937 random(1);
  write_text(folder_ / "tokenizer.json",
             tokenizer::tokenizer_json(tokenizer::random_vocabulary(random, 5, "ab")).dump());
  write_text(folder_ / "good.txt", "ab");
  write_text(folder_ / "bad.txt", std::string(5'000'000, 'x'));
  expect_refused(
      {"tokenize", "--tokenizer", path("tokenizer.json"), "--out", path("t.bin"), path("good.txt"), path("bad.txt")},
      "bad.txt: a word of 5000000 bytes");
}

TEST_F(DataCommand, RefusesWhatMakesNoSense) {
  write_text(folder_ / "a.txt", "abc");
  const std::string text = path("a.txt");
  expect_refused({"explode"}, "tokenize or synthetic or show");
  expect_refused({"tokenize", "--out", path("t.bin"), text}, "--tokenizer is missing");
  expect_refused({"tokenize", "--tokenizer", "bytes", text}, "--out is missing");
  expect_refused({"tokenize", "--tokenizer", "bytes", "--out", path("t.bin")}, "the text is missing");
  expect_refused({"tokenize", "--tokenizer", "bytes", "--out", text, text}, "a.txt");
  expect_refused({"tokenize", "--tokenizer", "bytes", "--out", path("t.bin"), path("none.txt")}, "none.txt: cannot be");
  expect_refused({"tokenize", "--tokenizer", path("none.json"), "--out", path("t.bin"), text}, "none.json: cannot be");
  expect_refused({"tokenize", "--tokenizer", text, "--out", path("t.bin"), text}, "no model of SentencePiece");
  expect_refused({"tokenize", "--tokenizer", "bytes", "--seed", "1", "--out", path("t.bin"), text},
                 "--seed does not go with `data tokenize`");
  expect_refused({"synthetic", "--out", path("s.bin")}, "--tokens is missing");
  expect_refused({"synthetic", "--tokens", "0", "--out", path("s.bin")}, "--tokens");
  expect_refused({"synthetic", "--tokens", "2147483648", "--out", path("s.bin")}, "--tokens");
  expect_refused({"synthetic", "--tokens", "10", "--out", path("s.bin"), text}, "reads no files");
  expect_refused({"show"}, "the token file is missing");
  expect_refused({"show", text}, "no header of a token file");
  expect_refused({"show", "--out", path("t.bin"), text}, "--out does not go with `data show`");
}

}  // namespace
}  // namespace lowgear::operations

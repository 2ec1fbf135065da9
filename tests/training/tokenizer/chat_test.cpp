#include "training/tokenizer/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "training/tokenizer/bpe_tokenizer.h"
#include "training/tokenizer/random_tokenizer.h"

namespace lowgear::tokenizer {
namespace {

using testing::HasSubstr;

const ChatTemplate& chat(std::string_view name) {
  return *std::ranges::find(kChatTemplates, name, &ChatTemplate::name);
}

/// Bytes, and the tokens of the templates.
BpeTokenizer chat_tokenizer() {
  std::mt19937 random(1);
  Json json = tokenizer_json(random_vocabulary(random, 0, "ab"));
  for (const ChatTemplate& each : kChatTemplates) {
    for (const std::string_view token : each.tokens) {
      json["added_tokens"].push_back(
          {{"id", 256 + json["added_tokens"].size()}, {"content", token}, {"special", true}});
    }
  }
  return {json.dump(), "tokenizer.json"};
}

/// The text of a conversation, with brackets around what counts in the loss.
std::string written(const Tokenizer& tokenizer, std::string_view name, const std::string& json,
                    const std::string& separator = "") {
  const Json document = Json::parse(json);
  const ChatEncoder encoder(tokenizer, chat(name), separator, "tokenizer.json");
  std::string text;
  bool counts = false;
  for (const std::int64_t token : encoder.encode(JsonView(document, "chat.jsonl:7"))) {
    if (counts != (token >= 0)) text += counts ? "]" : "[";
    counts = token >= 0;
    const std::int64_t id = counts ? token : ~token;
    text += tokenizer.decode({&id, 1});
  }
  return text + (counts ? "]" : "");
}

constexpr const char* kMessages = R"({"id": 3, "messages": [
  {"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi\n"},
  {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"},
  {"role": "assistant", "content": "Bye!"}]})";

TEST(Chat, IsWrittenAsTheTemplatesOfTheModels) {
  const BpeTokenizer tokenizer = chat_tokenizer();
  EXPECT_EQ(written(tokenizer, "chatml", kMessages),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n"
            "<|im_start|>assistant\n[Hello<|im_end|>]\n<|im_start|>user\nBye<|im_end|>\n"
            "<|im_start|>assistant\n[Bye!<|im_end|>]\n");
  EXPECT_EQ(written(tokenizer, "llama-3", kMessages),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n[Hello<|eot_id|>]"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n[Bye!<|eot_id|>]");
  EXPECT_EQ(written(tokenizer, "plain", kMessages), "Be brief.\n Hi\n\n[Hello\n]Bye\n[Bye!\n]");
}

TEST(Chat, ReadsPairs) {
  const ByteTokenizer bytes;
  EXPECT_EQ(written(bytes, "plain", R"({"question": "1 + 1?", "answer": "#### 2"})", "<eos>"),
            "1 + 1?\n[#### 2\n<eos>]");
  EXPECT_EQ(written(bytes, "plain", R"({"prompt": "a", "completion": ""})"), "a\n[\n]");
}

TEST(Chat, RefusesWhatATemplateLacks) {
  const ByteTokenizer bytes;
  const auto refusal = [&](const std::string& json, std::string_view name = "plain") {
    return error_of([&] { (void)written(bytes, name, json); });
  };
  EXPECT_EQ(refusal(R"({"messages": [{"role": "tool", "content": "4"}]})"),
            "chat.jsonl:7: $.messages[0].role: the template plain has no role \"tool\"; there are system, user, "
            "assistant");
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "4"}]})"), HasSubstr("no message of the assistant"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "assistant", "content": null}]})"),
              HasSubstr("chat.jsonl:7: $.messages[0].content"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "answer": "b"})"), HasSubstr("completion"));
  EXPECT_THAT(refusal(R"({"text": "a"})"), HasSubstr("not a conversation; write messages, prompt and completion"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": []}]})"),
              HasSubstr("messages[0].tool_calls: templates have no calls"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "completion": "b", "messages": []})"), HasSubstr("more than one of messages"));
  EXPECT_THAT(refusal("{}", "chatml"),
              HasSubstr("tokenizer.json: no token \"<|im_start|>\", which the template chatml needs"));
}

/// As a model of SentencePiece: a space before each text.
class PrefixingTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::int64_t vocabulary_size() const override { return 256; }
  using Tokenizer::encode;
  void encode(std::string_view text, const BlockSink& sink) const override {
    const std::vector<std::int64_t> tokens = ByteTokenizer().encode(" " + std::string(text));
    sink(tokens, text.size());
  }
  [[nodiscard]] std::string decode(std::span<const std::int64_t> tokens) const override {
    return ByteTokenizer().decode(tokens).substr(1);
  }
};

TEST(Chat, RefusesTokenizersThatChangeTextsInParts) {
  const PrefixingTokenizer tokenizer;
  EXPECT_THAT(error_of([&] { (void)ChatEncoder(tokenizer, chat("plain"), "", "sp.model"); }),
              HasSubstr(R"(sp.model: "a\x0ab" becomes "a\x0a b" when it is encoded in two parts)"));
}

}  // namespace
}  // namespace lowgear::tokenizer

#include "training/tokenizer/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "base/core/error_of.h"
#include "base/core/formats/json.h"
#include "training/tokenizer/random_tokenizer.h"

namespace lowgear::tokenizer {

namespace {

TEST(AddedTokens, FindsTheLeftmostAndOfThoseTheLongest) {
  const AddedTokens tokens({{"<a>", 1}, {"<a><b>", 2}, {"<b>", 3}, {"b>", 4}});
  const auto first = tokens.find("x <b> <a>");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->begin, 2U);
  EXPECT_EQ(first->token->id, 3);
  EXPECT_EQ(tokens.find("<a><b>")->token->id, 2);
  EXPECT_EQ(tokens.find("<a><c>")->token->id, 1);
  EXPECT_EQ(tokens.find("b><b>")->token->id, 4);
}

TEST(AddedTokens, FindsNothingWhereThereIsNothing) {
  EXPECT_FALSE(AddedTokens({}).find("<a>"));
  const AddedTokens tokens({{"<a>", 1}});
  EXPECT_FALSE(tokens.find(""));
  EXPECT_FALSE(tokens.find("<a"));
  EXPECT_FALSE(tokens.find("a>"));
}

using ::testing::AllOf;
using ::testing::HasSubstr;

Json small_json() {
  std::mt19937 random(3);
  return tokenizer_json(random_vocabulary(random, 20, "abc"));
}

BpeTokenizerParts read(const Json& json) { return read_tokenizer_json(json.dump(), "t.json"); }

/// What is said to a small tokenizer.json that has been changed.
std::string refusal(const std::function<void(Json&)>& spoil) {
  Json json = small_json();
  spoil(json);
  return error_of([&] { (void)read(json); });
}

TEST(TokenizerJson, ReadsTheVocabularyAndTheMerges) {
  std::mt19937 random(3);
  const RandomVocabulary vocabulary = random_vocabulary(random, 20, "abc");
  const BpeTokenizerParts parts = read(tokenizer_json(vocabulary));
  EXPECT_EQ(parts.tokens, vocabulary.tokens);
  EXPECT_EQ(parts.byte_tokens, vocabulary.byte_tokens);
  ASSERT_EQ(parts.merges.size(), vocabulary.merges.size());
  ASSERT_GT(parts.merges.size(), 5U);
  for (std::size_t i = 0; i < parts.merges.size(); ++i) {
    EXPECT_EQ(parts.merges[i].left, vocabulary.merges[i].left);
    EXPECT_EQ(parts.merges[i].right, vocabulary.merges[i].right);
    EXPECT_EQ(parts.merges[i].merged, vocabulary.merges[i].merged);
  }
  EXPECT_FALSE(parts.ignore_merges);
  EXPECT_EQ(parts.pattern, SplitPattern::gpt2);
}

TEST(TokenizerJson, ReadsMergesAsPairs) {
  Json json = small_json();
  const BpeTokenizerParts expected = read(json);
  for (Json& merge : json["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  const BpeTokenizerParts parts = read(json);
  ASSERT_EQ(parts.merges.size(), expected.merges.size());
  for (std::size_t i = 0; i < parts.merges.size(); ++i) EXPECT_EQ(parts.merges[i].merged, expected.merges[i].merged);
}

TEST(TokenizerJson, ReadsWhatLlama3Has) {
  Json json = small_json();
  const auto id = static_cast<int>(json["model"]["vocab"].size()) + 5;
  json["pre_tokenizer"] = llama3_pre_tokenizer();
  json["model"]["ignore_merges"] = true;
  json["model"]["byte_fallback"] = false;
  json["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}},
        {{"type", "TemplateProcessing"}, {"single", Json::array()}, {"pair", Json::array()}}}}};
  json["added_tokens"] = {{{"id", id},
                           {"content", "<|eot_id|>"},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", true}},
                          {{"id", id + 1}, {"content", "plain"}, {"special", false}}};
  const BpeTokenizerParts parts = read(json);
  EXPECT_EQ(parts.pattern, SplitPattern::llama3);
  EXPECT_TRUE(parts.ignore_merges);
  ASSERT_EQ(parts.added_first.size(), 1U);
  EXPECT_EQ(parts.added_first[0].content, "<|eot_id|>");
  EXPECT_EQ(parts.added_first[0].id, id);
  ASSERT_EQ(parts.added_then.size(), 1U);
  EXPECT_EQ(parts.added_then[0].content, "plain");
  EXPECT_EQ(parts.tokens.size(), static_cast<std::size_t>(id) + 2);
  EXPECT_EQ(parts.tokens[static_cast<std::size_t>(id)], "<|eot_id|>");
  EXPECT_EQ(parts.tokens[static_cast<std::size_t>(id) - 1], "");  // no token has this id
}

TEST(TokenizerJson, TakesAnAddedTokenThatIsInTheVocabularyToo) {
  Json json = small_json();
  const std::size_t id = json["model"]["vocab"].size();
  json["model"]["vocab"]["<|endoftext|>"] = id;
  json["added_tokens"] = {{{"id", id}, {"content", "<|endoftext|>"}, {"special", true}}};
  EXPECT_EQ(read(json).tokens[id], "<|endoftext|>");
  json["added_tokens"][0]["id"] = 3;
  EXPECT_THAT(error_of([&] { (void)read(json); }),
              HasSubstr("$.added_tokens[0].id: the id 3, but the vocabulary gives"));
}

TEST(TokenizerJson, RefusesAnotherModel) {
  const auto model = [](const std::string& key, const Json& value) {
    return refusal([&](Json& json) { json["model"][key] = value; });
  };
  EXPECT_THAT(model("type", "Unigram"), HasSubstr("t.json: $.model.type: \"Unigram\" is not supported, only BPE"));
  EXPECT_THAT(model("type", "WordPiece"), HasSubstr("WordPiece"));
  EXPECT_THAT(model("dropout", 0.1), HasSubstr("$.model.dropout"));
  EXPECT_THAT(model("byte_fallback", true), HasSubstr("$.model.byte_fallback"));
  EXPECT_THAT(model("continuing_subword_prefix", "##"), HasSubstr("$.model.continuing_subword_prefix"));
  EXPECT_THAT(model("end_of_word_suffix", "</w>"), HasSubstr("$.model.end_of_word_suffix"));
  EXPECT_THAT(model("new_feature", 1), HasSubstr("$.model.new_feature: \"new_feature\" is not known"));
  EXPECT_EQ(model("dropout", 0.0), "no error");
  EXPECT_EQ(model("unk_token", "<unk>"), "no error");
  EXPECT_THAT(refusal([](Json& json) { json.erase("model"); }), HasSubstr("model"));
  EXPECT_THAT(refusal([](Json& json) { json["model"] = 3; }), HasSubstr("$.model: expected an object"));
}

TEST(TokenizerJson, RefusesOtherStepsByTheirName) {
  const auto set = [](const std::string& key, const Json& value) {
    return refusal([&](Json& json) { json[key] = value; });
  };
  EXPECT_THAT(set("normalizer", {{"type", "NFC"}}), HasSubstr("$.normalizer: is not supported"));
  EXPECT_THAT(set("truncation", {{"max_length", 512}}), HasSubstr("$.truncation"));
  EXPECT_THAT(set("padding", {{"pad_id", 0}}), HasSubstr("$.padding"));
  EXPECT_THAT(set("pre_tokenizer", nullptr), HasSubstr("$.pre_tokenizer"));
  EXPECT_THAT(set("pre_tokenizer", {{"type", "Metaspace"}}), HasSubstr("\"Metaspace\" is not supported"));
  EXPECT_THAT(set("pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", true}}), HasSubstr("add_prefix_space"));
  EXPECT_THAT(set("pre_tokenizer", {{"type", "ByteLevel"}}), HasSubstr("add_prefix_space"));
  EXPECT_THAT(set("pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}),
              HasSubstr("not split"));
  EXPECT_THAT(set("post_processor", {{"type", "BertProcessing"}}), HasSubstr("\"BertProcessing\" is not supported"));
  EXPECT_THAT(set("decoder", {{"type", "WordPiece"}}), HasSubstr("$.decoder.type"));
  EXPECT_THAT(set("surprise", 1), HasSubstr("\"surprise\" is not known"));
}

TEST(TokenizerJson, RefusesOtherSplits) {
  const auto split = [](const std::function<void(Json&)>& spoil) {
    return refusal([&](Json& json) {
      json["pre_tokenizer"] = llama3_pre_tokenizer();
      spoil(json["pre_tokenizer"]["pretokenizers"]);
    });
  };
  EXPECT_EQ(split([](Json&) {}), "no error");
  EXPECT_THAT(split([](Json& steps) { steps[0]["pattern"]["Regex"] = "\\p{L}+"; }),
              AllOf(HasSubstr("$.pre_tokenizer.pretokenizers[0].pattern.Regex"), HasSubstr("is not supported")));
  EXPECT_THAT(split([](Json& steps) { steps[0]["pattern"] = {{"String", " "}}; }), HasSubstr("String"));
  EXPECT_THAT(split([](Json& steps) { steps[0]["behavior"] = "Removed"; }), HasSubstr("\"Removed\" is not supported"));
  EXPECT_THAT(split([](Json& steps) { steps[0]["invert"] = true; }), HasSubstr("invert"));
  EXPECT_THAT(split([](Json& steps) { steps.push_back(steps[0]); }), HasSubstr("two steps"));
  EXPECT_THAT(split([](Json& steps) { steps[1].erase("use_regex"); }), HasSubstr("use_regex"));
  EXPECT_THAT(split([](Json& steps) { steps[1]["add_prefix_space"] = true; }), HasSubstr("add_prefix_space"));
}

TEST(TokenizerJson, RefusesAVocabularyThatCannotBe) {
  const auto vocab = [](const std::function<void(Json&)>& spoil) {
    return refusal([&](Json& json) { spoil(json["model"]["vocab"]); });
  };
  EXPECT_THAT(vocab([](Json& tokens) { tokens["x1"] = 0; }), HasSubstr("$.model.vocab.x1: another token has the id 0"));
  EXPECT_THAT(vocab([](Json& tokens) { tokens["x1"] = -1; }), HasSubstr("the id -1 is not in 0 to 65"));
  EXPECT_THAT(vocab([](Json& tokens) { tokens["x1"] = tokens.size() + (1 << 16) + 1; }), HasSubstr("is not in 0 to"));
  EXPECT_EQ(vocab([](Json& tokens) { tokens["x1"] = tokens.size() + (1 << 16); }), "no error");
  EXPECT_THAT(vocab([](Json& tokens) { tokens["x1"] = 1e300; }), HasSubstr("expected the id of a token"));
  EXPECT_THAT(vocab([](Json& tokens) { tokens["x1"] = UINT64_MAX; }), HasSubstr("is not in 0 to"));
  EXPECT_THAT(vocab([](Json& tokens) { tokens["x1"] = "7"; }), HasSubstr("expected the id"));
  EXPECT_THAT(vocab([](Json& tokens) { tokens[""] = 9999; }), HasSubstr("an empty token"));
  EXPECT_THAT(vocab([](Json& tokens) { tokens.erase("Ġ"); }), HasSubstr("no token \"Ġ\" for the byte 32"));
  EXPECT_THAT(vocab([](Json& tokens) { tokens = Json::array(); }), HasSubstr("expected an object of tokens"));
}

TEST(TokenizerJson, RefusesMergesThatCannotBe) {
  const auto merge = [](const Json& value) { return refusal([&](Json& json) { json["model"]["merges"][1] = value; }); };
  EXPECT_THAT(merge("a q"), HasSubstr("$.model.merges[1]: the token \"aq\" is not in the vocabulary"));
  EXPECT_THAT(merge("zz a"), HasSubstr("\"zz\" is not in the vocabulary"));
  EXPECT_THAT(merge("ab"), HasSubstr("expected two tokens with one blank"));
  EXPECT_THAT(merge("a b c"), HasSubstr("expected two tokens with one blank"));
  EXPECT_THAT(merge({"a"}), HasSubstr("expected two tokens"));
  EXPECT_THAT(merge({"a", 1}), HasSubstr("expected two tokens"));
  EXPECT_THAT(merge(nullptr), HasSubstr("expected two tokens"));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["merges"][1] = json["model"]["merges"][0]; }),
              HasSubstr("$.model.merges[1]: occurs twice"));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["merges"] = "a b"; }), HasSubstr("$.model.merges"));
}

TEST(TokenizerJson, RefusesAddedTokensThatCannotBe) {
  const auto added = [](const Json& changes) {
    return refusal([&](Json& json) {
      Json token = {{"id", 5000}, {"content", "<x>"}, {"special", true}};
      token.update(changes);
      json["added_tokens"] = {token};
    });
  };
  EXPECT_EQ(added(Json::object()), "no error");
  EXPECT_THAT(added({{"lstrip", true}}), HasSubstr("$.added_tokens[0].lstrip: true is not supported"));
  EXPECT_THAT(added({{"rstrip", true}}), HasSubstr("rstrip"));
  EXPECT_THAT(added({{"single_word", true}}), HasSubstr("single_word"));
  EXPECT_THAT(added({{"content", ""}}), HasSubstr("an empty token"));
  EXPECT_THAT(added({{"id", 0}}), HasSubstr("another token has the id 0"));
  EXPECT_THAT(added({{"id", -7}}), HasSubstr("the id -7"));
  EXPECT_THAT(added({{"colour", 1}}), HasSubstr("\"colour\" is not known"));
  EXPECT_THAT(refusal([](Json& json) {
                json["added_tokens"] = {{{"id", 5000}, {"content", "<x>"}}, {{"id", 5001}, {"content", "<x>"}}};
              }),
              HasSubstr("$.added_tokens[1].content: occurs twice"));
  // U+00B6 spells the byte B6 in the vocabulary, and would be two bytes as an added token.
  EXPECT_THAT(refusal([](Json& json) {
                json["added_tokens"] = {{{"id", json["model"]["vocab"]["¶"]}, {"content", "¶"}}};
              }),
              HasSubstr("the same token for other bytes"));
}

TEST(TokenizerJson, RefusesWhatIsNoJson) {
  EXPECT_THAT(error_of([] { (void)read_tokenizer_json("{", "t.json"); }), HasSubstr("t.json:1:"));
  EXPECT_THAT(error_of([] { (void)read_tokenizer_json("[]", "t.json"); }), HasSubstr("expected an object"));
  EXPECT_THAT(error_of([] { (void)read_tokenizer_json("", "t.json"); }), HasSubstr("not valid JSON"));
}

}  // namespace

}  // namespace lowgear::tokenizer

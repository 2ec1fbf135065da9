#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "training/tokenizer/bpe_model.h"
#include "training/tokenizer/word_splitter.h"

namespace lowgear::tokenizer {

/// A made-up byte-level vocabulary: the 256 bytes in some order, and merges of tokens that were there before.
struct RandomVocabulary {
  std::vector<std::string> tokens;  ///< bytes by id
  std::array<std::int32_t, 256> byte_tokens{};
  std::vector<BpeMerge> merges;
};

/// Merges are of tokens that spell letters of a small alphabet, so that they meet in short texts.
inline RandomVocabulary random_vocabulary(std::mt19937& random, int merges, const std::string& alphabet) {
  RandomVocabulary vocabulary;
  std::vector<std::int32_t> usable;
  for (std::size_t id = 0; id < 256; ++id) {
    const std::size_t byte = (id * 37 + 11) % 256;
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
    vocabulary.byte_tokens[byte] = static_cast<std::int32_t>(id);
    if (alphabet.find(static_cast<char>(byte)) != std::string::npos) usable.push_back(static_cast<std::int32_t>(id));
  }
  const auto text = [&](std::int32_t id) -> const std::string& {
    return vocabulary.tokens[static_cast<std::size_t>(id)];
  };
  for (int attempt = 0; attempt < merges; ++attempt) {
    const std::int32_t left = usable[random() % usable.size()];
    const std::int32_t right = usable[random() % usable.size()];
    const std::string merged = text(left) + text(right);
    const bool known = std::ranges::any_of(
        vocabulary.merges, [&](const BpeMerge& merge) { return merge.left == left && merge.right == right; });
    if (known || merged.size() > 12) continue;
    // Several pairs may make the same token.
    auto place = std::ranges::find(vocabulary.tokens, merged);
    const auto id = static_cast<std::int32_t>(place - vocabulary.tokens.begin());
    if (place == vocabulary.tokens.end()) {
      vocabulary.tokens.push_back(merged);
      usable.push_back(id);
    }
    vocabulary.merges.push_back({left, right, id});
  }
  return vocabulary;
}

inline std::string random_text(std::mt19937& random, std::size_t size, const std::string& alphabet) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += alphabet[random() % alphabet.size()];
  return text;
}

/// A `tokenizer.json` of such a vocabulary, as GPT-2's is.
inline Json tokenizer_json(const RandomVocabulary& vocabulary) {
  Json vocab = Json::object();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    vocab[alphabet_from_bytes(vocabulary.tokens[id])] = id;
  }
  Json merges = Json::array();
  for (const BpeMerge& merge : vocabulary.merges) {
    merges.push_back(alphabet_from_bytes(vocabulary.tokens[static_cast<std::size_t>(merge.left)]) + " " +
                     alphabet_from_bytes(vocabulary.tokens[static_cast<std::size_t>(merge.right)]));
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"post_processor", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}}},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"vocab", std::move(vocab)},
            {"merges", std::move(merges)}}}};
}

/// How Llama 3 cuts its text.
inline Json llama3_pre_tokenizer() {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", std::string(regex_of(SplitPattern::llama3))}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
}

}  // namespace lowgear::tokenizer

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "training/tokenizer/bpe_model.h"
#include "training/tokenizer/tokenizer.h"
#include "training/tokenizer/tokenizer_json.h"
#include "training/tokenizer/word_splitter.h"

namespace lowgear::tokenizer {

/// Longest word that is encoded. No text has longer ones, and memory must not grow with the file.
inline constexpr std::size_t kMaxWordBytes = std::size_t{1} << 22;

/// Byte-level BPE. Tokens are those of Hugging Face's tokenizers with `add_special_tokens=False`: the post-processor,
/// which puts special tokens before and after the text, is not applied. Special tokens that stand in the text itself
/// become their ids. Text that is no UTF-8 is encoded too, byte for byte.
class BpeTokenizer final : public Tokenizer {
 public:
  /// From `tokenizer.json`; throws InputError as read_tokenizer_json.
  BpeTokenizer(std::string_view json, const std::string& source);
  explicit BpeTokenizer(BpeTokenizerParts parts);

  [[nodiscard]] std::int64_t vocabulary_size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  using Tokenizer::encode;
  /// Also throws InputError on a word of more than kMaxWordBytes.
  void encode(std::string_view text, const BlockSink& sink) const override;
  [[nodiscard]] std::string decode(std::span<const std::int64_t> tokens) const override;

 private:
  class Encoding;

  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> whole_words_;  ///< into tokens_; empty without ignore_merges
  AddedTokens added_first_;
  AddedTokens added_then_;
  WordSplitter splitter_;
  BpeModel model_;
};

}  // namespace lowgear::tokenizer

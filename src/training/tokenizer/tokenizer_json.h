#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/tokenizer/bpe_model.h"
#include "training/tokenizer/word_splitter.h"

namespace lowgear::tokenizer {

/// A token that stands for itself wherever it occurs in a text (`<|endoftext|>`).
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
};

/// Finds added tokens in text.
class AddedTokens {
 public:
  /// No content may be empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t begin = 0;
    const AddedToken* token = nullptr;
  };
  /// The leftmost added token, and the longest that begins there.
  [[nodiscard]] std::optional<Match> find(std::string_view text) const;

 private:
  std::array<std::vector<AddedToken>, 256> by_first_byte_;  ///< longest first
};

/// Largest vocabulary that is read, several times that of any in use.
inline constexpr std::int64_t kMaxVocabularySize = std::int64_t{1} << 21;
/// Largest number of ids without a token, so that memory grows with the file and not with the numbers in it.
inline constexpr std::int64_t kMaxUnusedIds = std::int64_t{1} << 16;

/// The content of a `tokenizer.json`, checked.
struct BpeTokenizerParts {
  SplitPattern pattern = SplitPattern::gpt2;
  bool ignore_merges = false;                   ///< a word that is a token becomes that token, without merges
  std::vector<std::string> tokens;              ///< bytes of each id; empty where an id is no token
  std::array<std::int32_t, 256> byte_tokens{};  ///< token of each byte
  std::vector<std::int32_t> words;              ///< ids of the tokens that merges can produce, in any order
  std::vector<BpeMerge> merges;                 ///< by rank
  std::vector<AddedToken> added_first;          ///< looked for in the text
  std::vector<AddedToken> added_then;           ///< looked for in the rest of the text ("normalized": true)
};

/// Reads `tokenizer.json` of Hugging Face's tokenizers, as far as it is byte-level BPE as GPT-2 and Llama 3 have it:
/// no normalizer; pre-tokenizer ByteLevel, or a Split by a known pattern and ByteLevel; merges as strings or pairs.
/// Throws InputError with the JSON path at anything else: to ignore it could change tokens.
[[nodiscard]] BpeTokenizerParts read_tokenizer_json(std::string_view text, const std::string& source);

}  // namespace lowgear::tokenizer

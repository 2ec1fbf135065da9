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
  /// The leftmost occurrence of one, the longest of those that begin there.
  [[nodiscard]] std::optional<Match> find(std::string_view text) const;

 private:
  std::array<std::vector<AddedToken>, 256> by_first_byte_;  ///< longest first
};

/// Most tokens of a vocabulary that is read, several times that of any in use.
inline constexpr std::int64_t kMaxVocabularySize = std::int64_t{1} << 21;
/// Most ids without a token, so that memory grows with the file and not with the numbers in it.
inline constexpr std::int64_t kMaxUnusedIds = std::int64_t{1} << 16;

/// What a `tokenizer.json` says, checked.
struct BpeTokenizerParts {
  SplitPattern pattern = SplitPattern::gpt2;
  bool ignore_merges = false;                   ///< a word that is a token is that token, whatever the merges make
  std::vector<std::string> tokens;              ///< bytes of each id; empty where an id is no token
  std::array<std::int32_t, 256> byte_tokens{};  ///< token of each byte
  std::vector<std::int32_t> words;              ///< ids of the tokens that text can become by merges, in any order
  std::vector<BpeMerge> merges;                 ///< by rank
  std::vector<AddedToken> added_first;          ///< looked for in the text
  std::vector<AddedToken> added_then;           ///< looked for in what the first leave ("normalized": true)
};

/// Reads `tokenizer.json` of Hugging Face's tokenizers, as far as it is byte-level BPE as GPT-2 and Llama 3 have it:
/// no normalizer; pre-tokenizer ByteLevel, or a Split by a known pattern and ByteLevel; merges as strings or pairs.
/// Throws InputError with the JSON path at anything else, which would change tokens if it were passed over.
[[nodiscard]] BpeTokenizerParts read_tokenizer_json(std::string_view text, const std::string& source);

}  // namespace lowgear::tokenizer

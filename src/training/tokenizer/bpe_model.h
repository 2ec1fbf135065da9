#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/core/probability.h"

namespace lowgear::tokenizer {

/// Two tokens that become one. Its place in the list of merges is its rank.
struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;
};

/// Byte-pair encoding (Sennrich et al. 2016) of single words over bytes: beginning with one token per byte, the pair of
/// neighbours of lowest rank is merged, the leftmost of several, until no pair can be.
class BpeModel {
 public:
  /// `byte_tokens` are the tokens of the 256 bytes. Throws Error when a pair is merged twice.
  BpeModel(const std::array<std::int32_t, 256>& byte_tokens, std::span<const BpeMerge> merges);

  /// Appends the tokens of a word, in O(n log n) of its bytes.
  void encode(std::string_view word, std::vector<std::int64_t>& tokens) const;

 private:
  struct Symbol;
  struct Candidate;
  struct Merge {
    std::int32_t rank;
    std::int32_t token;
  };
  struct PairHash {
    std::size_t operator()(std::uint64_t pair) const { return random_bits(pair); }
  };

  [[nodiscard]] const Merge* find(std::int32_t left, std::int32_t right) const;

  std::array<std::int32_t, 256> byte_tokens_;
  std::unordered_map<std::uint64_t, Merge, PairHash> merges_;
};

/// The bytes that a token of a byte-level vocabulary spells. Such vocabularies (GPT-2 and all that followed) write
/// every byte as one printable character: itself where it is one of Latin-1, and U+0100, U+0101, ... for the others in
/// order. Empty when a character is not of this alphabet.
[[nodiscard]] std::optional<std::string> bytes_from_alphabet(std::string_view token);

/// The inverse.
[[nodiscard]] std::string alphabet_from_bytes(std::string_view bytes);

}  // namespace lowgear::tokenizer

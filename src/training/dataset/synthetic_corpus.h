#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/progress.h"

namespace lowgear::dataset {

/// Synthetic text with learnable structure, so that training can be tried without downloading a text: 256 words of one
/// to three syllables, and for each word four others that may follow it, with chances of 8, 4, 2 and 1 in 15. Words
/// become sentences of 4 to 12, and sentences lines. Everything follows from the seed, on every machine.
///
/// A model of single bytes reaches some 2.8 nats per byte, one that knows the words and their successors some 0.3; a
/// uniform guess has ln 256 = 5.5.
class SyntheticCorpus {
 public:
  explicit SyntheticCorpus(std::uint64_t seed);

  /// The next sentence: lower case but for its first letter, with a full stop and a line end.
  [[nodiscard]] std::string next_sentence();

 private:
  static constexpr std::size_t kWords = 256;
  static constexpr std::size_t kSuccessors = 4;

  /// In [0, bound).
  std::size_t draw(std::size_t bound);
  std::string draw_word();

  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
  std::vector<std::string> words_;
  std::vector<std::array<std::size_t, kSuccessors>> successors_;
  std::size_t word_ = 0;
};

/// Tokens of a text whose every byte is one, as `lowgear data tokenize --tokenizer bytes` makes them.
inline constexpr std::int64_t kByteVocabulary = 256;
[[nodiscard]] std::vector<std::int64_t> byte_ids(std::string_view text);

/// Writes a token file (uint16, a token for every byte) of exactly `tokens` tokens of such text. Throws InputError when
/// the number is below 1 or beyond kMaxHeaderTokens, or the file cannot be written.
void write_synthetic_corpus(const std::filesystem::path& path, std::int64_t tokens, std::uint64_t seed,
                            Progress* progress = nullptr);

}  // namespace lowgear::dataset

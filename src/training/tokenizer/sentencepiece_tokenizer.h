#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "training/tokenizer/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace lowgear::tokenizer {

/// Longest text that is encoded: the library needs many times its size in memory.
inline constexpr std::size_t kMaxSentencePieceBytes = std::size_t{1} << 26;

/// A model of SentencePiece (Kudo and Richardson 2018), unigram or BPE, as Llama 2 has it (`tokenizer.model`). Text is
/// normalised as the model says, so that decoding need not give the same text back.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// `model` is the content of the file. Throws InputError when it is no such model.
  SentencePieceTokenizer(std::string_view model, const std::string& source);
  ~SentencePieceTokenizer() override;
  SentencePieceTokenizer(const SentencePieceTokenizer&) = delete;
  SentencePieceTokenizer& operator=(const SentencePieceTokenizer&) = delete;

  [[nodiscard]] std::int64_t vocabulary_size() const override;
  using Tokenizer::encode;
  /// One block. Also throws InputError on a text of more than kMaxSentencePieceBytes.
  void encode(std::string_view text, const BlockSink& sink) const override;
  [[nodiscard]] std::string decode(std::span<const std::int64_t> tokens) const override;

 private:
  std::string source_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace lowgear::tokenizer

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::tokenizer {

/// Turns text into ids of tokens and back. Immutable; any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Ids are in [0, vocabulary_size()); not every one of them need be a token.
  [[nodiscard]] virtual std::int64_t vocabulary_size() const = 0;
  /// Receives the tokens of a text block by block, each of its next `bytes` bytes.
  using BlockSink = std::function<void(std::span<const std::int64_t> tokens, std::size_t bytes)>;
  /// Hands the tokens of any bytes, UTF-8 or not, to `sink` in blocks that do not grow with the text. Nothing is put
  /// before or after them (no beginning-of-text token).
  virtual void encode(std::string_view text, const BlockSink& sink) const = 0;
  /// All tokens of a text at once.
  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text) const;
  /// The bytes of the tokens. Throws InputError naming the first id that is no token.
  [[nodiscard]] virtual std::string decode(std::span<const std::int64_t> tokens) const = 0;

 protected:
  Tokenizer() = default;
};

/// Every byte is a token, its id the byte's value: works for any text, with no file.
class ByteTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::int64_t vocabulary_size() const override { return 256; }
  using Tokenizer::encode;
  void encode(std::string_view text, const BlockSink& sink) const override;
  [[nodiscard]] std::string decode(std::span<const std::int64_t> tokens) const override;
};

/// `bytes`, or a file: `tokenizer.json` of Hugging Face (BpeTokenizer) or a model of SentencePiece (any other name).
/// Throws InputError when it cannot be read or used.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name);

}  // namespace lowgear::tokenizer

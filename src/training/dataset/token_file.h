#pragma once

/// Token files: a text as the ids of its tokens, little-endian, in the format of llm.c (`dev/data/data_common.py`
/// there): a header of 256 int32 (magic, version, number of tokens, zeros), then the tokens. Files without a header, as
/// Megatron's `.bin` and nanoGPT's are, hold nothing but tokens.
///
/// Marked files are Lowgear's own version of that header: the highest bit of a token (uint32) marks it as one that does
/// not count in the loss, as those of a prompt. Here such a token is ~id, a negative number.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/core/files/file.h"
#include "base/core/files/mapped_file.h"

namespace lowgear::dataset {

/// The type of a token in the file.
enum class TokenType {
  uint16,  ///< llm.c: magic 20240520, version 1
  uint32,  ///< llm.c: magic 20240801, version 7
};

[[nodiscard]] constexpr std::size_t token_bytes(TokenType type) { return type == TokenType::uint16 ? 2 : 4; }
inline constexpr auto kTokenTypes = std::to_array<TokenType>({TokenType::uint16, TokenType::uint32});
/// `uint16`, `uint32`.
[[nodiscard]] std::string_view name(TokenType type);
/// The smallest type that holds every id of a vocabulary.
[[nodiscard]] constexpr TokenType token_type_for(std::int64_t vocabulary_size) {
  return vocabulary_size <= 65536 ? TokenType::uint16 : TokenType::uint32;
}

/// The id of a token, which may be marked.
[[nodiscard]] constexpr std::int64_t token_id(std::int64_t token) { return token < 0 ? ~token : token; }
/// Whether tokens of a file may be marked.
enum class Marks : unsigned char { none, some };

/// Bytes of the header of llm.c's files.
inline constexpr std::size_t kTokenHeaderBytes = 1024;
/// Largest number of tokens of a file with a header, which states it as int32.
inline constexpr std::int64_t kMaxHeaderTokens = INT32_MAX;

/// The tokens in the bytes of a token file, which it does not own.
class TokenView {
 public:
  /// Reads the header, or reads the bytes as tokens of the type `headerless`. Throws InputError, naming `source`, when
  /// there is no header that it knows, or (with `headerless`) one that should not be skipped over as tokens; when the
  /// size does not fit the number of tokens; and when `vocabulary_size` is below 1.
  TokenView(std::string_view bytes, std::string source, std::int64_t vocabulary_size,
            std::optional<TokenType> headerless = {});

  [[nodiscard]] std::int64_t token_count() const { return count_; }
  [[nodiscard]] std::int64_t vocabulary_size() const { return vocabulary_size_; }
  [[nodiscard]] TokenType token_type() const { return type_; }
  [[nodiscard]] bool has_header() const { return has_header_; }
  [[nodiscard]] Marks marks() const { return marks_; }
  [[nodiscard]] const std::string& source() const { return source_; }

  /// Copies the tokens from the `first`-th on, marked ones as ~id; `out` may be empty. Throws InputError naming the
  /// position of a token that is not in the vocabulary, and Error when not all of them are in the file.
  void read(std::int64_t first, std::span<std::int64_t> out) const;
  /// The same, whatever the vocabulary.
  void read_unchecked(std::int64_t first, std::span<std::int64_t> out) const;
  /// One token; errors as `read`.
  [[nodiscard]] std::int64_t operator[](std::int64_t index) const;

 private:
  [[noreturn]] void fail(std::string_view what, std::string_view fix) const;
  void read_header(std::string_view bytes);
  void check_no_header(std::string_view bytes) const;
  void check_vocabulary(std::int64_t first, std::span<const std::int64_t> tokens) const;

  std::string_view tokens_;
  std::string source_;
  std::int64_t vocabulary_size_;
  std::int64_t count_ = 0;
  TokenType type_ = TokenType::uint16;
  bool has_header_ = false;
  Marks marks_ = Marks::none;
};

/// A token file mapped into memory (see MappedFile): opening it reads the header, the index next to it, and some
/// tokens.
class TokenFile {
 public:
  /// The type of a file with Megatron's index next to it comes from there. Throws InputError when
  /// the file cannot be read or mapped, when it contradicts its index or holds something else than tokens of its type
  /// (refuse_doubtful_tokens), or as TokenView.
  [[nodiscard]] static TokenFile open(const std::filesystem::path& path, std::int64_t vocabulary_size,
                                      std::optional<TokenType> headerless = {});

  /// Valid as long as this file, also when it is moved.
  [[nodiscard]] const TokenView& tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t token_count() const { return tokens_.token_count(); }
  /// Megatron's index, from which the type of the tokens comes; empty without one.
  [[nodiscard]] const std::string& index() const { return index_; }
  /// See TokenView.
  void read(std::int64_t first, std::span<std::int64_t> out) const { tokens_.read(first, out); }
  [[nodiscard]] std::int64_t operator[](std::int64_t index) const { return tokens_[index]; }

 private:
  TokenFile(std::shared_ptr<const MappedFile> file, TokenView tokens, std::string index);

  std::shared_ptr<const MappedFile> file_;
  TokenView tokens_;
  std::string index_;
};

/// Writes a token file with a header, whole or not at all (StagedFile).
class TokenFileWriter {
 public:
  /// Of a marked file the type is uint32. Throws InputError when the file cannot be written.
  TokenFileWriter(const std::filesystem::path& path, TokenType type, Marks marks = Marks::none);

  /// Appends; marked tokens as ~id. Throws InputError when a token does not fit the type or the file would hold more
  /// than kMaxHeaderTokens, and Error when writing fails.
  void append(std::span<const std::int64_t> tokens);
  [[nodiscard]] std::int64_t token_count() const { return count_; }
  /// Writes the header and puts the file in its place.
  void commit();

 private:
  void flush();

  std::string path_;
  StagedFile file_;
  TokenType type_;
  Marks marks_;
  std::int64_t count_ = 0;
  std::string buffer_;
};

/// Megatron's index (`FILE.idx`, by `MMapIndexedDatasetBuilder`) of the tokens in the `FILE.bin` next to it.
struct MegatronIndex {
  std::string file;
  TokenType type;           ///< its int32 is uint32 here: no id is negative
  std::uint64_t bytes = 0;  ///< of all sequences
};

/// Reads the index next to `tokens`: the file of the same name that ends with `.idx`; empty when there is none or it is
/// no index of Megatron. Throws InputError when it is damaged, or the tokens are of a type that is not read.
[[nodiscard]] std::optional<MegatronIndex> megatron_index_of(const std::filesystem::path& tokens);

// Files whose bytes can be read as tokens, but are something else: numbers fit any type.

/// Throws InputError when the content of a file is of a known kind (base/core/files/file.h) or a text.
void refuse_other_content(std::string_view bytes, const std::string& source);

/// For files whose type only the user states, without a header or an index. Throws InputError when no tokenizer
/// wrote these tokens: halves or pairs of numbers of another width, numbers of another byte order, floating-point
/// numbers, text in UTF-16, one token that makes up half of all, and a token beyond the vocabulary. Looks at 65,536
/// tokens in 16 places; fewer than 32 tokens are not examined.
void refuse_doubtful_tokens(const TokenView& view);

}  // namespace lowgear::dataset

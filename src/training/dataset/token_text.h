#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "training/dataset/token_file.h"

namespace lowgear::dataset {

/// Largest number of files of a text. Each needs a mapping, and the system grants a process some 65,000.
inline constexpr std::size_t kMaxTextFiles = 4096;

/// The tokens of one file or of several, one after the other without a gap: where a file ends is not marked. A
/// text of one file is that file.
class TokenText {
 public:
  /// The memory of the parts must stay valid. Throws InputError when there is no part, or more than kMaxTextFiles.
  explicit TokenText(std::vector<TokenView> parts);
  TokenText(TokenView part) : TokenText(std::vector{std::move(part)}) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] std::int64_t token_count() const { return ends_.back(); }
  /// Whether a part is a marked file.
  [[nodiscard]] Marks marks() const;
  /// Name in messages: the file, or the first file and the number of others.
  [[nodiscard]] std::string source() const;

  /// Distinguishes texts: a hash of 1024 tokens that are spread evenly over it, or of all where there are
  /// fewer, whatever the vocabulary and however the text is cut into files.
  [[nodiscard]] std::uint32_t fingerprint() const;

  /// Copies the tokens from the `first`-th on, over as many parts as they lie in. Throws as TokenView::read does,
  /// naming the part and the position in it.
  void read(std::int64_t first, std::span<std::int64_t> out) const;

 private:
  /// Of the part that has the token `index`, which is one of the text's.
  [[nodiscard]] std::size_t part_of(std::int64_t index) const;
  [[nodiscard]] std::int64_t begin_of(std::size_t part) const { return ends_[part] - parts_[part].token_count(); }

  std::vector<TokenView> parts_;
  std::vector<std::int64_t> ends_;  ///< of each part, in tokens from the beginning of the text
};

/// Token files mapped into memory as one text.
class TokenFiles {
 public:
  /// In the order of `paths`; all are without header and of type `headerless`, or all have one. Throws InputError as
  /// TokenFile::open and TokenText.
  [[nodiscard]] static TokenFiles open(std::span<const std::filesystem::path> paths, std::int64_t vocabulary_size,
                                       std::optional<TokenType> headerless = {});

  /// Valid as long as this object, also when it is moved.
  [[nodiscard]] const TokenText& text() const { return text_; }

 private:
  TokenFiles(std::vector<TokenFile> files, TokenText text);

  std::vector<TokenFile> files_;
  TokenText text_;
};

}  // namespace lowgear::dataset

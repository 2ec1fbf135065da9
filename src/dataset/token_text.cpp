#include "dataset/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace lowgear {
namespace {

void require_file_count(std::size_t count) {
  if (count >= 1 && count <= kMaxTextFiles) return;
  throw InputError(fmt::format("a text of {} token files; give 1 to {}", count, kMaxTextFiles));
}

}  // namespace

TokenText::TokenText(std::vector<TokenView> parts) : parts_(std::move(parts)) {
  require_file_count(parts_.size());
  std::int64_t end = 0;
  for (const TokenView& part : parts_) ends_.push_back(end += part.token_count());
}

std::string TokenText::source() const {
  if (parts_.size() == 1) return parts_.front().source();
  return fmt::format("{} and {} more", parts_.front().source(), parts_.size() - 1);
}

void TokenText::read(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || count > token_count() || first > token_count() - count) {
    throw Error(fmt::format("{}: {} tokens from {} on were asked for; it has {}", printable(source()), count, first,
                            token_count()));
  }
  auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends_, first) - ends_.begin());
  for (; !out.empty(); ++part) {
    const std::int64_t begin = ends_[part] - parts_[part].token_count();
    const auto here = std::min(out.size(), static_cast<std::size_t>(ends_[part] - first));
    parts_[part].read(first - begin, out.first(here));
    first += static_cast<std::int64_t>(here);
    out = out.subspan(here);
  }
}

TokenFiles::TokenFiles(std::vector<TokenFile> files, TokenText text)
    : files_(std::move(files)), text_(std::move(text)) {}

TokenFiles TokenFiles::open(std::span<const std::filesystem::path> paths, std::int64_t vocabulary_size,
                            std::optional<TokenType> headerless) {
  require_file_count(paths.size());
  std::vector<TokenFile> files;
  std::vector<TokenView> parts;
  for (const std::filesystem::path& path : paths) {
    files.push_back(TokenFile::open(path, vocabulary_size, headerless));
    parts.push_back(files.back().tokens());
  }
  return {std::move(files), TokenText(std::move(parts))};
}

}  // namespace lowgear

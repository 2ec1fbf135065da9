#include "training/dataset/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"

namespace lowgear::dataset {
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

Marks TokenText::marks() const {
  const bool some = std::ranges::any_of(parts_, [](const TokenView& part) { return part.marks() == Marks::some; });
  return some ? Marks::some : Marks::none;
}

std::size_t TokenText::part_of(std::int64_t index) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
}

std::uint32_t TokenText::fingerprint() const {
  constexpr std::int64_t kTokens = 1024;
  const std::int64_t count = std::min(token_count(), kTokens);
  std::uint32_t hash = 2'166'136'261U;  // FNV-1a
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = token_count() / count * i;
    const std::size_t part = part_of(index);
    std::int64_t token = 0;
    parts_[part].read_unchecked(index - begin_of(part), {&token, 1});
    for (const unsigned shift : {0U, 8U, 16U, 24U})
      hash = (hash ^ static_cast<std::uint8_t>(token >> shift)) * 16'777'619U;
  }
  return hash;
}

void TokenText::read(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || count > token_count() || first > token_count() - count) {
    throw Error(fmt::format("{}: {} tokens from {} on were asked for; it has {}", printable(source()), count, first,
                            token_count()));
  }
  for (std::size_t part = part_of(first); !out.empty(); ++part) {
    const auto here = std::min(out.size(), static_cast<std::size_t>(ends_[part] - first));
    parts_[part].read(first - begin_of(part), out.first(here));
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

}  // namespace lowgear::dataset

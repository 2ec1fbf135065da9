#include "base/core/suggestion.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lowgear {
namespace {

constexpr std::size_t kLongestWord = 64;

/// Optimal string alignment distance: edits of one letter, or a swap of two neighbours.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view text, std::span<const std::string_view> candidates) {
  if (text.size() > kLongestWord) return std::nullopt;
  std::optional<std::string_view> nearest;
  std::size_t fewest = std::max<std::size_t>(text.size() / 3, 1) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t edits = edits_between(text, candidate);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace lowgear

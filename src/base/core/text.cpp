#include "base/core/text.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <vector>

namespace lowgear {
namespace {

/// Length of a character and range of its second byte, by its first byte. The range keeps out overlong forms,
/// surrogates and code points beyond U+10FFFF.
struct Lead {
  std::size_t size = 0;
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

std::size_t utf8_character_size(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = lead_of(static_cast<unsigned char>(text.front()));
  if (text.size() < lead.size) return 0;
  if (lead.size < 2) return lead.size;
  const auto second = static_cast<unsigned char>(text[1]);
  if (second < lead.second_low || second > lead.second_high) return 0;
  for (std::size_t i = 2; i < lead.size; ++i) {
    if (!is_utf8_continuation(text[i])) return 0;
  }
  return lead.size;
}

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

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_separator(char letter) { return letter == '-' || letter == '_' || letter == '.' || letter == ' '; }

/// Empty where the text has no more than it, or does not begin with a letter.
std::string_view family_of(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && !is_digit(text[end]) && !is_separator(text[end])) ++end;
  if (end == 0) return {};
  while (end < text.size() && is_digit(text[end])) ++end;
  return end < 2 || end == text.size() ? std::string_view() : text.substr(0, end);
}

/// `a1000` is not of the family `a100`.
bool is_of_family(std::string_view name, std::string_view family) {
  if (!name.starts_with(family)) return false;
  return name.size() == family.size() || !is_digit(family.back()) || !is_digit(name[family.size()]);
}

std::size_t common_letters(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::optional<std::string_view> nearest_of(std::string_view text, std::span<const std::string_view> candidates) {
  std::optional<std::string_view> nearest;
  std::size_t fewest = std::max<std::size_t>(text.size() / 3, 1) + 1;
  std::size_t alike = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t edits = edits_between(text, candidate);
    const std::size_t common = common_letters(text, candidate);
    const bool nearer = edits < fewest || (nearest && edits == fewest && common > alike);
    if (!nearer) continue;
    fewest = edits;
    alike = common;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace

std::vector<std::string_view> names_of_family(std::string_view text, std::span<const std::string_view> candidates) {
  std::vector<std::string_view> names;
  const std::string_view family = family_of(text);
  if (family.empty()) return names;
  std::ranges::copy_if(candidates, std::back_inserter(names),
                       [family](std::string_view name) { return is_of_family(name, family); });
  return names;
}

bool has_words_of(std::string_view name, std::string_view text) {
  const auto words_of = [](std::string_view words) {
    std::vector<std::string_view> list;
    while (!words.empty()) {
      const auto end = static_cast<std::size_t>(std::ranges::find_if(words, is_separator) - words.begin());
      if (end > 0) list.push_back(words.substr(0, end));
      words.remove_prefix(std::min(end + 1, words.size()));
    }
    return list;
  };
  const std::vector<std::string_view> words = words_of(name);
  return std::ranges::all_of(words_of(text),
                             [&words](std::string_view word) { return std::ranges::find(words, word) != words.end(); });
}

std::optional<std::string_view> nearest_name(std::string_view text, std::span<const std::string_view> candidates) {
  if (text.size() > kLongestWord) return std::nullopt;
  const std::vector<std::string_view> family = names_of_family(text, candidates);
  if (family.empty()) return nearest_of(text, candidates);
  const auto with_words =
      std::ranges::find_if(family, [text](std::string_view name) { return has_words_of(name, text); });
  if (with_words != family.end()) return *with_words;
  return nearest_of(text, family);
}

std::string text_of_failure(std::string_view failure) {
  return failure == kStoppedByUser ? "was stopped by Ctrl-C" : "failed (" + std::string(failure) + ")";
}

std::string normal_gpu_uuid(std::string_view text) {
  constexpr std::size_t kPrefix = 4;
  constexpr std::size_t kAlone = 36;
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return std::string(text);
  std::string uuid(text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
  if (uuid.size() == kAlone && uuid[8] == '-' && uuid[13] == '-') uuid.insert(0, "GPU-");
  std::string prefix = uuid.substr(0, kPrefix);
  std::ranges::transform(prefix, prefix.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const auto is_digit = [](unsigned char letter) { return letter == '-' || std::isxdigit(letter) != 0; };
  if (prefix != "GPU-" && prefix != "MIG-") return std::string(text);
  if (!std::all_of(uuid.begin() + kPrefix, uuid.end(), is_digit)) return std::string(text);
  std::ranges::transform(uuid, uuid.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return uuid.replace(0, kPrefix, prefix);
}

}  // namespace lowgear

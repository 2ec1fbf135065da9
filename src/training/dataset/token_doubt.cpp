#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file_kind.h"
#include "base/core/text.h"
#include "training/dataset/token_file.h"

namespace lowgear::dataset {
namespace {

constexpr std::int64_t kFewestTokens = 32;
constexpr std::int64_t kPlaces = 16;
constexpr std::int64_t kTokensOfPlace = 4096;
constexpr std::string_view kNameType =
    "name the type that they have (data.token_type of a training, --token-type of `lowgear data show`), or convert the "
    "file";

[[noreturn]] void refuse(const TokenView& tokens, std::string_view what, std::string_view fix) {
  throw_input_error({tokens.source(), 0, 0}, what, fix);
}

/// Tokens of 16 places that are spread evenly; each begins at an even one, so that even and odd ones stay apart.
std::vector<std::int64_t> sample(const TokenView& tokens) {
  const std::int64_t count = tokens.token_count();
  std::vector<std::int64_t> all(static_cast<std::size_t>(std::min(count, kPlaces * kTokensOfPlace)));
  if (count <= kPlaces * kTokensOfPlace) {
    tokens.read_unchecked(0, all);
    return all;
  }
  for (std::int64_t place = 0; place < kPlaces; ++place) {
    const std::int64_t first = (count - kTokensOfPlace) / (kPlaces - 1) * place / 2 * 2;
    tokens.read_unchecked(first, std::span(all).subspan(static_cast<std::size_t>(place * kTokensOfPlace),
                                                        static_cast<std::size_t>(kTokensOfPlace)));
  }
  return all;
}

/// How often a byte has each value.
using ByteCounts = std::array<double, 256>;

double total(const ByteCounts& counts) { return std::accumulate(counts.begin(), counts.end(), 0.0); }

/// Of one byte of the tokens, every `stride`-th from the first on.
ByteCounts count_bytes(std::span<const std::int64_t> tokens, std::size_t first, std::size_t stride, std::size_t byte) {
  ByteCounts counts = {};
  for (std::size_t i = first; i < tokens.size(); i += stride) {
    ++counts.at(static_cast<std::size_t>(tokens[i] >> (8 * byte)) & 0xFFU);
  }
  return counts;
}

/// Of one byte of the tokens with the given parity of their place.
double entropy_bits(std::span<const std::int64_t> tokens, std::size_t first, std::size_t stride, std::size_t byte) {
  const ByteCounts counts = count_bytes(tokens, first, stride, byte);
  const double all = total(counts);
  double bits = 0;
  for (const double count : counts) {
    if (count > 0) bits -= count / all * std::log2(count / all);
  }
  return bits;
}

/// Whether two samples are of one distribution: chi squared of the two, less what chance makes of it, for each number.
/// It is below 0.01 for the bytes of texts, and 0.25 for the two bytes of random ids below 50,257.
bool alike(const ByteCounts& a, const ByteCounts& b) {
  constexpr double kAlike = 0.02;
  constexpr double kDeviations = 4;
  const double of_a = total(a);
  const double of_b = total(b);
  double squared = 0;
  double values = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a.at(i) + b.at(i) == 0) continue;
    const double difference = std::sqrt(of_b / of_a) * a.at(i) - std::sqrt(of_a / of_b) * b.at(i);
    squared += difference * difference / (a.at(i) + b.at(i));
    ++values;
  }
  const double freedom = values - 1;
  const double each = 2 * of_a * of_b / (of_a + of_b);
  return (squared - freedom) / each < kAlike + kDeviations * std::sqrt(2 * freedom) / each;
}

/// Tokens have alike distributions at even and odd places, unlike halves of wider numbers.
bool halves_differ(std::span<const std::int64_t> tokens, std::size_t bytes) {
  constexpr double kBits = 2;
  for (std::size_t byte = 0; byte < bytes; ++byte) {
    if (std::abs(entropy_bits(tokens, 0, 2, byte) - entropy_bits(tokens, 1, 2, byte)) > kBits) return true;
  }
  return false;
}

void refuse_wider_numbers(const TokenView& view, std::span<const std::int64_t> tokens) {
  if (!halves_differ(tokens, token_bytes(view.token_type()))) return;
  refuse(view,
         fmt::format("read as {}, its tokens at even and odd places are of different kinds: they are halves of wider "
                     "numbers (first: {} {} {} {})",
                     name(view.token_type()), tokens[0], tokens[1], tokens[2], tokens[3]),
         kNameType);
}

void refuse_half_equal(const TokenView& view, std::span<const std::int64_t> tokens) {
  std::unordered_map<std::int64_t, std::size_t> counts;
  for (const std::int64_t token : tokens) ++counts[token];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  if (2 * most->second < tokens.size()) return;
  refuse(view,
         fmt::format("read as {}, {} of {} tokens are {}", name(view.token_type()), most->second, tokens.size(),
                     most->first),
         "its tokens are of another type, or mostly padding: name the type that they have, or leave the padding out");
}

/// Small numbers vary most in their lowest byte. An entropy from few tokens says little.
void refuse_other_byte_order(const TokenView& view, std::span<const std::int64_t> tokens) {
  constexpr std::size_t kFewest = 512;
  constexpr double kBits = 0.25;
  if (tokens.size() < kFewest || view.token_type() != TokenType::uint16) return;
  if (entropy_bits(tokens, 0, 1, 1) - entropy_bits(tokens, 0, 1, 0) < kBits) return;
  refuse(view,
         fmt::format("read as {}, the high bytes of its tokens vary more than the low ones: they are big-endian "
                     "(first: {} {} {} {})",
                     name(view.token_type()), tokens[0], tokens[1], tokens[2], tokens[3]),
         "write them in little-endian order");
}

/// Pairs of narrower numbers vary in their third byte as in the first one; floating-point and big-endian numbers are
/// larger than any vocabulary.
void refuse_other_words(const TokenView& view, std::span<const std::int64_t> tokens) {
  constexpr std::int64_t kAboveAnyVocabulary = std::int64_t{1} << 24;
  if (view.token_type() != TokenType::uint32) return;
  const double low_bits = entropy_bits(tokens, 0, 1, 0);
  const bool pairs = low_bits >= 1 && entropy_bits(tokens, 0, 1, 2) >= 0.8 * low_bits;
  const std::int64_t highest = *std::ranges::max_element(tokens);
  if (!pairs && highest < kAboveAnyVocabulary) return;
  refuse(
      view,
      fmt::format("read as uint32, its tokens are {} (first: {} {}; highest: {})",
                  pairs ? "pairs of narrower numbers" : "beyond any vocabulary: numbers of another type or byte order",
                  tokens[0], tokens[1], highest),
      kNameType);
}

/// Two numbers of 8 bits have the same bytes, low and high. Numbers of a model have the same high bytes with either
/// sign; ids do not.
void refuse_bytes_and_halves(const TokenView& view, std::span<const std::int64_t> tokens) {
  constexpr std::size_t kFewest = 768;
  constexpr double kFewestOfSign = 0.2;
  constexpr std::size_t kPositive = 128;
  if (tokens.size() < kFewest || view.token_type() != TokenType::uint16) return;
  const ByteCounts high = count_bytes(tokens, 0, 1, 1);
  ByteCounts positive = {};
  ByteCounts negative = {};
  std::copy_n(high.begin(), kPositive, positive.begin());
  std::copy(high.begin() + kPositive, high.end(), negative.begin());
  const bool bytes = alike(count_bytes(tokens, 0, 1, 0), high);
  const bool signs = std::min(total(positive), total(negative)) > kFewestOfSign * static_cast<double>(tokens.size());
  if (!bytes && !(signs && alike(positive, negative))) return;
  refuse(view,
         fmt::format("read as uint16, its tokens are {} (first: {} {} {} {})",
                     bytes ? "pairs of bytes: their low and high bytes are alike"
                           : "floating-point numbers: their high bytes are alike with and without the sign",
                     tokens[0], tokens[1], tokens[2], tokens[3]),
         kNameType);
}

/// Code units of UTF-16 without a byte order mark. A vocabulary of bytes has the same tokens for ASCII, and is small.
void refuse_utf16(const TokenView& view, std::span<const std::int64_t> tokens) {
  constexpr std::int64_t kLargestOfBytes = 1024;
  constexpr std::int64_t kHighestLatin = 0x24F;
  const bool is_text = std::ranges::all_of(tokens, [](std::int64_t unit) {
    return (unit >= ' ' && unit <= kHighestLatin && unit != 0x7F) || unit == '\t' || unit == '\n' || unit == '\r';
  });
  const bool has_blanks = std::ranges::count(tokens, ' ') * 50 > std::ssize(tokens);
  if (view.vocabulary_size() <= kLargestOfBytes || !is_text || !has_blanks) return;
  refuse(view, "it is a text in UTF-16, and holds no tokens",
         "make a token file of it with `lowgear data tokenize`, which takes UTF-8");
}

void refuse_outside_vocabulary(const TokenView& view, std::span<const std::int64_t> tokens) {
  const std::int64_t highest = *std::ranges::max_element(tokens);
  if (highest < view.vocabulary_size()) return;
  refuse(view,
         fmt::format("a token is {} (read as {}), beyond a vocabulary of {}", highest, name(view.token_type()),
                     view.vocabulary_size()),
         "use the tokenizer and the model that the file was made for, or name the type that its tokens have");
}

bool is_text(std::string_view bytes) {
  constexpr std::size_t kFewest = 16;
  constexpr std::size_t kLooked = 4096;
  constexpr std::size_t kLongestCharacter = 4;
  if (bytes.size() < kFewest) return false;
  const bool whole = bytes.size() <= kLooked;
  bytes = bytes.substr(0, kLooked);
  while (!bytes.empty()) {
    const std::size_t size = utf8_character_size(bytes);
    if (size == 0) return !whole && bytes.size() < kLongestCharacter;
    const auto character = static_cast<unsigned char>(bytes.front());
    if ((character < 0x20 && character != '\t' && character != '\n' && character != '\r') || character == 0x7F) {
      return false;
    }
    bytes.remove_prefix(size);
  }
  return true;
}

/// A byte order mark, and no control characters in the code units that follow.
bool is_marked_utf16(std::string_view bytes) {
  constexpr std::size_t kLooked = 4096;
  const bool little = bytes.starts_with("\xff\xfe");
  if (bytes.size() % 2 != 0 || !(little || bytes.starts_with("\xfe\xff"))) return false;
  bytes = bytes.substr(0, kLooked);
  for (std::size_t i = 2; i < bytes.size(); i += 2) {
    const auto low = static_cast<unsigned char>(bytes[i + (little ? 0 : 1)]);
    const auto high = static_cast<unsigned char>(bytes[i + (little ? 1 : 0)]);
    if (high == 0 && low < 0x20 && low != '\t' && low != '\n' && low != '\r') return false;
  }
  return true;
}

}  // namespace

void refuse_other_content(std::string_view bytes, const std::string& source) {
  std::string_view kind = known_file_kind(bytes);
  if (kind.empty() && is_text(bytes)) kind = "a text";
  if (kind.empty() && is_marked_utf16(bytes)) kind = "a text in UTF-16";
  if (kind.empty()) return;
  throw_input_error({source, 0, 0}, fmt::format("it is {}, and holds no tokens", kind),
                    "name a token file; `lowgear data tokenize` makes one of a text");
}

void refuse_doubtful_tokens(const TokenView& view) {
  if (view.token_count() < kFewestTokens) return;
  const std::vector<std::int64_t> tokens = sample(view);
  refuse_wider_numbers(view, tokens);
  refuse_half_equal(view, tokens);
  refuse_other_words(view, tokens);
  refuse_other_byte_order(view, tokens);
  refuse_bytes_and_halves(view, tokens);
  refuse_utf16(view, tokens);
  refuse_outside_vocabulary(view, tokens);
}

}  // namespace lowgear::dataset

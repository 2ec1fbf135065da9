#include "training/tokenizer/bpe_model.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <tuple>

#include "base/core/error.h"
#include "base/core/text.h"

namespace lowgear::tokenizer {

namespace {

constexpr std::int32_t kNone = -1;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
}

}  // namespace

/// A token of the word so far; one that has been merged into its left neighbour has none.
struct BpeModel::Symbol {
  std::int32_t token;
  std::int32_t previous;
  std::int32_t next;
};

/// A pair that could be merged when it was found. It may have changed since.
struct BpeModel::Candidate {
  std::int32_t rank;
  std::int32_t position;  ///< of its left symbol

  /// For a queue whose top is the greatest: the lowest rank, and of these the leftmost.
  bool operator<(const Candidate& other) const {
    return std::tie(rank, position) > std::tie(other.rank, other.position);
  }
};

BpeModel::BpeModel(const std::array<std::int32_t, 256>& byte_tokens, std::span<const BpeMerge> merges)
    : byte_tokens_(byte_tokens) {
  merges_.reserve(merges.size());
  for (const BpeMerge& merge : merges) {
    const auto rank = static_cast<std::int32_t>(merges_.size());
    if (!merges_.try_emplace(pair_key(merge.left, merge.right), Merge{rank, merge.merged}).second) {
      throw Error(fmt::format("the tokens {} and {} are merged twice", merge.left, merge.right));
    }
  }
}

const BpeModel::Merge* BpeModel::find(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeModel::encode(std::string_view word, std::vector<std::int64_t>& tokens) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char byte : word) {
    const auto position = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({byte_tokens_[static_cast<unsigned char>(byte)], position - 1, position + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = kNone;

  const auto at = [&symbols](std::int32_t position) -> Symbol& { return symbols[static_cast<std::size_t>(position)]; };
  const auto merge_at = [&](std::int32_t position) -> const Merge* {
    const Symbol& left = at(position);
    if (left.token == kNone || left.next == kNone) return nullptr;
    return find(left.token, at(left.next).token);
  };
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](std::int32_t position) {
    if (position == kNone) return;
    if (const Merge* const merge = merge_at(position)) candidates.push({merge->rank, position});
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols.size()); ++i) consider(i);

  while (!candidates.empty()) {
    const Candidate candidate = candidates.top();
    candidates.pop();
    const Merge* const merge = merge_at(candidate.position);
    if (merge == nullptr || merge->rank != candidate.rank) continue;
    Symbol& left = at(candidate.position);
    Symbol& right = at(left.next);
    left.token = merge->token;
    left.next = right.next;
    right.token = kNone;
    if (left.next != kNone) at(left.next).previous = candidate.position;
    consider(left.previous);
    consider(candidate.position);
  }
  // The first symbol is never merged into another.
  for (std::int32_t i = 0; i != kNone; i = at(i).next) tokens.push_back(at(i).token);
}

namespace {

constexpr bool is_written_as_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// The code points of the alphabet are those below this.
constexpr std::size_t kCodePoints = 0x144;
constexpr std::int16_t kNoByte = -1;

constexpr std::array<unsigned, 256> kCodePointOfByte = [] {
  std::array<unsigned, 256> code_points = {};
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) code_points[byte] = is_written_as_itself(byte) ? byte : next++;
  return code_points;
}();

constexpr std::array<std::int16_t, kCodePoints> kByteOfCodePoint = [] {
  std::array<std::int16_t, kCodePoints> bytes = {};
  bytes.fill(kNoByte);
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[kCodePointOfByte[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}();

}  // namespace

std::optional<std::string> bytes_from_alphabet(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const std::size_t size = utf8_character_size(token);
    if (size == 0 || size > 2) return std::nullopt;
    const auto first = static_cast<unsigned char>(token[0]);
    const unsigned code_point =
        size == 1 ? first : (first & 0x1FU) << 6U | (static_cast<unsigned char>(token[1]) & 0x3FU);
    if (code_point >= kCodePoints || kByteOfCodePoint[code_point] == kNoByte) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOfCodePoint[code_point]));
    token.remove_prefix(size);
  }
  return bytes;
}

std::string alphabet_from_bytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) {
    const unsigned code_point = kCodePointOfByte[static_cast<unsigned char>(byte)];
    if (code_point < 0x80) {
      token.push_back(static_cast<char>(code_point));
    } else {
      token.push_back(static_cast<char>(0xC0U | code_point >> 6U));
      token.push_back(static_cast<char>(0x80U | (code_point & 0x3FU)));
    }
  }
  return token;
}

}  // namespace lowgear::tokenizer

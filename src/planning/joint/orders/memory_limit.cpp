#include "planning/joint/orders/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/core/error.h"

namespace lowgear::joint {
namespace {

constexpr int kMostMicrobatches = 1'000'000;

/// `40GiB`, `512 MB`: a number with a unit of bytes.
bool is_bytes(std::string_view text) {
  return !text.empty() && (text.front() >= '0' && text.front() <= '9') && (text.back() == 'B' || text.back() == 'b');
}

}  // namespace

MemoryLimit parse_memory_limit(std::string_view text) {
  if (text == "1f1b") return {};
  if (is_bytes(text)) {
    throw InputError(
        fmt::format("--memory-limit {}: the profile does not state how many bytes a microbatch's activations take; "
                    "give 1f1b, or the "
                    "number of microbatches that fit",
                    text));
  }
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool read = error == std::errc() && end == text.data() + text.size();
  if (read && count < 1) {
    throw InputError(
        fmt::format("--memory-limit {}: no order fits; the least limit that one fits is 1 microbatch", text));
  }
  if (!read || count > kMostMicrobatches) {
    throw InputError(fmt::format("--memory-limit {}: expected 1f1b, or a number of microbatches from 1 to {}",
                                 quote(std::string(text)), kMostMicrobatches));
  }
  return {count};
}

std::string to_string(const MemoryLimit& limit) {
  return limit.microbatches ? std::to_string(*limit.microbatches) : "1f1b";
}

std::vector<int> most_activations(const MemoryLimit& limit, int ranks, int microbatches, int chunks) {
  std::vector<int> most;
  for (int rank = 0; rank < ranks; ++rank) {
    most.push_back(std::min(limit.microbatches.value_or(ranks - rank), microbatches) * chunks);
  }
  return most;
}

int least_limit(int stage_microbatches, int chunks) { return (stage_microbatches + chunks - 1) / chunks; }

}  // namespace lowgear::joint

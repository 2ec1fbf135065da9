#include "planning/joint/orders/memory_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "base/core/error.h"

namespace lowgear::joint {
namespace {

constexpr int kMostMicrobatches = 1'000'000;

/// `40GiB`, `512 MB`: a number with a unit of bytes.
bool is_bytes(std::string_view text) {
  return !text.empty() && (text.front() >= '0' && text.front() <= '9') && (text.back() == 'B' || text.back() == 'b');
}

/// One number of the option's text.
int read_count(std::string_view text, std::string_view part) {
  int count = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
  const bool is_number = error == std::errc() && end == part.data() + part.size();
  if (is_number && count < 1) {
    throw InputError(
        fmt::format("--memory-limit {}: no order fits; the least limit that one fits is 1 microbatch", text));
  }
  if (!is_number || count > kMostMicrobatches) {
    throw InputError(fmt::format("--memory-limit {}: expected 1f1b, or numbers of microbatches from 1 to {}",
                                 quote(std::string(text)), kMostMicrobatches));
  }
  return count;
}

}  // namespace

MemoryLimit parse_memory_limit(std::string_view text) {
  if (text == "1f1b") return {};
  if (is_bytes(text)) {
    throw InputError(fmt::format(
        "--memory-limit {}: the profile does not state how many bytes a microbatch's activations take; give "
        "1f1b, or the number of microbatches that fit",
        text));
  }
  MemoryLimit limit;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    limit.microbatches.push_back(read_count(text, text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return limit;
}

std::string to_string(const MemoryLimit& limit) {
  return limit.microbatches.empty() ? "1f1b" : fmt::format("{}", fmt::join(limit.microbatches, ","));
}

std::vector<int> most_activations(const MemoryLimit& limit, int ranks, int microbatches, int chunks) {
  const std::vector<int>& given = limit.microbatches;
  if (given.size() > 1 && given.size() != static_cast<std::size_t>(ranks)) {
    throw InputError(fmt::format("--memory-limit {}: {} numbers for {} ranks; give one, or one for each rank",
                                 to_string(limit), given.size(), ranks));
  }
  std::vector<int> most;
  for (int rank = 0; rank < ranks; ++rank) {
    int fit = ranks - rank;
    if (!given.empty()) fit = given.size() == 1 ? given.front() : given[static_cast<std::size_t>(rank)];
    most.push_back(std::min(fit, microbatches) * chunks);
  }
  return most;
}

}  // namespace lowgear::joint

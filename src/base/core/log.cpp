#include "base/core/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <string>

#include "base/core/error.h"

namespace lowgear {
namespace {

constexpr auto kLevelNames = std::to_array<std::string_view>({"debug", "info", "warning", "error"});

std::atomic<LogLevel> process_level{LogLevel::info};

}  // namespace

LogLevel parse_log_level(std::string_view text, std::string_view source) {
  std::string word(text);
  for (char& letter : word) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  const auto* const found = std::ranges::find(kLevelNames, word);
  if (found == kLevelNames.end()) {
    throw InputError(fmt::format("{}: there is no level {}; the levels are {}", source, quote(text),
                                 "debug, info, warning and error"));
  }
  return static_cast<LogLevel>(found - kLevelNames.begin());
}

LogLevel log_level() { return process_level.load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) { process_level = level; }

void set_log_level(const Environment& environment) {
  const auto text = environment(kLogVariable);
  if (text && !text->empty()) set_log_level(parse_log_level(*text, kLogVariable));
}

void log_debug(std::string_view text) {
  constexpr std::size_t kMostCharacters = 2000;
  if (!logs_debug()) return;
  // One call, so that no line is torn; a log that nobody can read any more is no error.
  const std::string line = fmt::format("lowgear: debug: {}\n", printable(text, kMostCharacters));
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace lowgear

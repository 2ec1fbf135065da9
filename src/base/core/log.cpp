#include "base/core/log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>

#include "base/core/error.h"

namespace lowgear {
namespace {

std::atomic<LogLevel> process_level{LogLevel::info};

LogLevel level_named(std::string_view text) {
  std::string word(text);
  for (char& letter : word) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  const auto* const found = std::ranges::find(kLogLevelNames, word);
  if (found == kLogLevelNames.end()) {
    throw InputError(
        fmt::format("{}: expected {}, not {}", kLogVariable, fmt::join(kLogLevelNames, " or "), quote(text)));
  }
  return static_cast<LogLevel>(found - kLogLevelNames.begin());
}

}  // namespace

LogLevel log_level() { return process_level.load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) { process_level = level; }

void set_log_level(const Environment& environment) {
  const auto text = environment(kLogVariable);
  if (text && !text->empty()) set_log_level(level_named(*text));
}

void log_debug(std::string_view text) {
  constexpr std::size_t kMostCharacters = 2000;
  if (!logs_debug()) return;
  // One call, so that no line is torn; a log that nobody can read any more is no error.
  const std::string line = fmt::format("lowgear: debug: {}\n", printable(text, kMostCharacters));
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace lowgear

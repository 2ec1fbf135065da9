#include "app/cli/terminal/console.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/core/error.h"

namespace lowgear::cli {
namespace {

/// A setting of the environment; empty when it is not set.
std::string_view environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets the environment
  return value != nullptr ? value : "";
}

/// Writes the text; drops the rest of it when the reader has gone away.
void write_all(int file_descriptor, std::string_view name, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file_descriptor, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EPIPE) {
      return;
    } else if (errno != EINTR) {
      throw Error(fmt::format("{}: cannot be written: {}", name, std::generic_category().message(errno)));
    }
  }
}

}  // namespace

bool colours_allowed(int file_descriptor) {
  return ::isatty(file_descriptor) == 1 && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

Console::Console(int output) : output_(output) {
  const auto mode = colours_allowed(STDERR_FILENO) ? spdlog::color_mode::always : spdlog::color_mode::never;
  log_ = std::make_unique<spdlog::logger>("lowgear", std::make_shared<spdlog::sinks::stderr_color_sink_st>(mode));
  log_->set_pattern("lowgear: %^%l%$: %v");
}

Console::~Console() = default;

// To print is to change the console, although no member changes.
// NOLINTBEGIN(readability-make-member-function-const,readability-convert-member-functions-to-static)
void Console::print(std::string_view text) { write_all(output_, "<stdout>", text); }
void Console::print_aside(std::string_view text) { write_all(STDERR_FILENO, "<stderr>", text); }
// NOLINTEND(readability-make-member-function-const,readability-convert-member-functions-to-static)

void Console::print_json(const Json& json) { print(json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n'); }

void Console::note(std::string_view text) { log_->info(text); }
void Console::warn(std::string_view text) { log_->warn(text); }
void Console::error(std::string_view text) { log_->error(text); }
void Console::mute_notes() { log_->set_level(spdlog::level::warn); }

}  // namespace lowgear::cli

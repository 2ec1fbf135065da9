#include "app/cli/terminal/console.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/files/memory_files.h"

namespace lowgear::cli {
namespace {

/// A setting of the environment; empty when it is not set.
std::string_view environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets the environment
  return value != nullptr ? value : "";
}

/// Writes the text; drops the rest of it when the reader has gone away.
void write_text(int file_descriptor, std::string_view name, std::string_view text) {
  const int error = write_all(file_descriptor, text);
  if (error == 0 || error == EPIPE) return;
  throw Error(fmt::format("{}: cannot be written: {}", name, std::generic_category().message(error)));
}

}  // namespace

bool colours_allowed(int file_descriptor) {
  return ::isatty(file_descriptor) == 1 && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

void write_named_file(const std::filesystem::path& path, std::string_view content, Console& console) {
  const bool replaces = MemoryFiles::keeper_of(path) == nullptr && file_exists(path);
  write_file_atomically(path, content);
  if (replaces) console.note(fmt::format("replaced {}", printable(path.string())));
}

void commit_folder(StagedDirectory& folder, Console& console) {
  folder.commit();
  if (folder.left_behind().empty()) return;
  console.warn(fmt::format("{}: the earlier output was moved here and could not be removed; remove it as its owner",
                           printable(folder.left_behind().string(), std::string_view::npos)));
}

TerminalConsole::TerminalConsole(int output) : output_(output) {
  const bool coloured = colours_allowed(STDERR_FILENO);
  const auto mode = coloured ? spdlog::color_mode::always : spdlog::color_mode::never;
  log_ = std::make_unique<spdlog::logger>("lowgear", std::make_shared<spdlog::sinks::stderr_color_sink_st>(mode));
  // A message takes the place of a line of progress that a program keeps changing.
  log_->set_pattern(fmt::format("{}lowgear: %^%l%$: %v", coloured ? "\r\033[K" : ""));
}

TerminalConsole::~TerminalConsole() = default;

void TerminalConsole::print(std::string_view text) { write_text(output_, "<stdout>", text); }
void TerminalConsole::print_aside(std::string_view text) { write_text(STDERR_FILENO, "<stderr>", text); }

void TerminalConsole::print_json(const Json& json) {
  print(json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

void TerminalConsole::note(std::string_view text) { log_->info(text); }
void TerminalConsole::warn(std::string_view text) { log_->warn(text); }
void TerminalConsole::error(std::string_view text) { log_->error(text); }

void TerminalConsole::set_level(LogLevel level) {
  const auto least = level == LogLevel::error     ? spdlog::level::err
                     : level == LogLevel::warning ? spdlog::level::warn
                                                  : spdlog::level::info;
  log_->set_level(std::max(log_->level(), least));
}

}  // namespace lowgear::cli

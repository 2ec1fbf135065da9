#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/log.h"

namespace spdlog {
class logger;
}

namespace lowgear::cli {

/// Whether text for this file descriptor may be coloured: it is a terminal that is not `dumb`, and the environment does
/// not say NO_COLOR (https://no-color.org).
[[nodiscard]] bool colours_allowed(int file_descriptor);

/// Output of a command: results, and remarks about them.
class Console {
 public:
  Console() = default;
  virtual ~Console() = default;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Writes a result as text.
  virtual void print(std::string_view text) = 0;
  /// Writes a result beside standard output, for verbs whose standard output belongs to the command that they run.
  virtual void print_aside(std::string_view text) = 0;
  /// Writes a result as one object.
  virtual void print_json(const Json& json) = 0;

  /// Remarks, one line each.
  virtual void note(std::string_view text) = 0;
  virtual void warn(std::string_view text) = 0;
  virtual void error(std::string_view text) = 0;
  /// Drops remarks below the level, and still those that were dropped before.
  virtual void set_level(LogLevel level) = 0;
  /// Drops notes from now on.
  void mute_notes() { set_level(LogLevel::warning); }
};

/// Writes a file that an option names, as `write_file_atomically`; notes it where another was there.
void write_named_file(const std::filesystem::path& path, std::string_view content, Console& console);

/// Commits the folder; warns of an earlier output that could not be removed.
void commit_folder(StagedDirectory& folder, Console& console);

/// The console of a program: results to standard output, remarks to standard error.
class TerminalConsole final : public Console {
 public:
  /// `output` is the file descriptor of standard output.
  explicit TerminalConsole(int output);
  ~TerminalConsole() override;

  /// Drops the rest after the reader has closed the pipe (`| head`). Throws Error when standard output cannot be
  /// written for another reason (a full disk).
  void print(std::string_view text) override;
  void print_aside(std::string_view text) override;
  /// Replaces invalid bytes of UTF-8 (in a file's name).
  void print_json(const Json& json) override;
  void note(std::string_view text) override;
  void warn(std::string_view text) override;
  void error(std::string_view text) override;
  void set_level(LogLevel level) override;

 private:
  int output_;
  std::unique_ptr<spdlog::logger> log_;
};

}  // namespace lowgear::cli

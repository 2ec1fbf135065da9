#pragma once

#include <memory>
#include <string_view>

#include "base/core/formats/json.h"
#include "base/core/log.h"

namespace spdlog {
class logger;
}

namespace lowgear::cli {

/// Whether text for this file descriptor may be coloured: it is a terminal that is not `dumb`, and the environment does
/// not say NO_COLOR (https://no-color.org).
[[nodiscard]] bool colours_allowed(int file_descriptor);

/// Output of a command: results to standard output, everything else to standard error.
class Console {
 public:
  /// `output` is the file descriptor of standard output.
  explicit Console(int output);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Writes a result. Drops the rest after the reader has closed the pipe (`| head`). Throws Error when
  /// standard output cannot be written for another reason (a full disk).
  void print(std::string_view text);
  /// Writes a result on standard error, for verbs whose standard output belongs to the command that they run.
  void print_aside(std::string_view text);
  /// Writes one object, with invalid bytes of UTF-8 (in a file's name) replaced.
  void print_json(const Json& json);

  /// Remarks on standard error, one line each.
  void note(std::string_view text);
  void warn(std::string_view text);
  void error(std::string_view text);
  /// Drops notes from now on.
  void mute_notes();
  /// Drops remarks below the level, and still those that were dropped before.
  void set_level(LogLevel level);

 private:
  int output_;
  std::unique_ptr<spdlog::logger> log_;
};

}  // namespace lowgear::cli

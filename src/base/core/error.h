#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lowgear {

/// Base of every error that Lowgear throws. The message is one line that says what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user's input is wrong: a file, a value, a combination of flags. The command line exits with 2.
/// The message says where (`file:line:column`), what, and how to fix it.
class InputError : public Error {
 public:
  using Error::Error;
};

/// A place in a text that a person wrote; `line` and `column` are 1-based, 0 when not known.
struct SourceLocation {
  std::string source;  ///< file name, or "<stdin>"
  int line = 0;
  int column = 0;

  friend bool operator==(const SourceLocation&, const SourceLocation&) = default;
};

/// `file:line:column`, leaving out the parts that are not known.
[[nodiscard]] std::string to_string(const SourceLocation& where);

/// An InputError that knows its place and its text apart; `throw_input_error` throws it.
class LocatedError final : public InputError {
 public:
  LocatedError(const std::string& message, SourceLocation where, std::string problem)
      : InputError(message), where_(std::move(where)), problem_(std::move(problem)) {}

  [[nodiscard]] const SourceLocation& where() const { return where_; }
  /// The message without the place.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  SourceLocation where_;
  std::string problem_;
};

/// Throws LocatedError with "`where`: `what`; `fix`" (`fix` may be empty).
[[noreturn]] void throw_input_error(const SourceLocation& where, std::string_view what, std::string_view fix = {});

/// User text in a form that fits a one-line message: control characters and invalid UTF-8 as `\xNN`, truncated with
/// `...` after `max_characters`.
[[nodiscard]] std::string printable(std::string_view text, std::size_t max_characters = 200);

/// A piece of the user's text in double quotes, printable, at most 60 characters of it.
[[nodiscard]] std::string quote(std::string_view text);

/// 1-based line and column (in characters) of a byte offset. Lines end with LF, CRLF or CR; a leading byte order mark
/// takes no column.
[[nodiscard]] SourceLocation locate(std::string_view text, std::size_t offset, std::string source);

}  // namespace lowgear

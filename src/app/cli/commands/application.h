#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/console.h"
#include "base/core/error.h"

namespace lowgear::cli {

/// An earlier name of a verb, which still works but is not shown.
struct OldWord {
  std::string_view word;
  std::string_view verb;  ///< its name now
};
[[nodiscard]] std::span<const OldWord> old_words();

/// Words that are no command line of the program. The message does not say where help is; `help` does: `lowgear plan
/// --help`.
class UsageError final : public InputError {
 public:
  UsageError(const std::string& message, std::string help) : InputError(message), help_(std::move(help)) {}
  [[nodiscard]] const std::string& help() const { return help_; }

 private:
  std::string help_;
};

/// The command line: verbs with their options.
class Application {
 public:
  /// The help shows the verbs in the given order.
  explicit Application(std::vector<Verb> verbs);

  /// Runs one command line (without the program's name) and returns the exit code. Whatever goes wrong is one line on
  /// standard error. Throws Interrupted.
  [[nodiscard]] int run(std::span<const std::string> arguments, Console& console);

  /// Runs a verb with its words, for a caller that handles errors itself. Throws UsageError, Interrupted, and what the
  /// verb throws.
  [[nodiscard]] ExitCode run_verb(std::span<const std::string> words, Console& console);

 private:
  /// That of the verb that was parsed. Throws Interrupted in place of an error that comes of a signal, and Error in
  /// place of one of the file system that the verb did not expect.
  [[nodiscard]] ExitCode take_action(Console& console);
  [[nodiscard]] ExitCode parse_and_run(std::span<const std::string> arguments, Console& console);
  void parse(std::span<const std::string> given);
  [[nodiscard]] const VerbAction& action() const;
  /// That of the option, which the environment hands on to children, or the environment's.
  void heed_log_level() const;

  std::vector<Verb> verbs_;
  CLI::App app_;
  std::optional<LogLevel> log_level_;  ///< as given with --log-level
  std::map<std::string, VerbAction, std::less<>> actions_;
};

/// All of `main`: runs the command line of a program with these verbs and returns the exit code.
[[nodiscard]] int run_program(int argc, char** argv, std::vector<Verb> verbs);

}  // namespace lowgear::cli

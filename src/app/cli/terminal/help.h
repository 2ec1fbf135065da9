#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace lowgear::cli {

/// A group of options that every verb has.
inline constexpr std::string_view kFurtherOptions = "Messages";
/// Type of a positional that names a verb, as the manual page of it is named.
inline constexpr const char* kVerbType = "VERB";
/// Type of a positional with the program that a verb runs, whose exit status is then its own.
inline constexpr const char* kProgramType = "CMD";
/// The line before the examples of a verb.
inline constexpr std::string_view kExample = "Example:\n";

/// Help that fits a terminal, in at most 80 columns: descriptions are wrapped next to the options. Of an option's long
/// names it shows the first alone; the others are earlier names, which the parser still accepts. The program's help is
/// one screen of verbs by group. `--help` of a verb shows the options that are in no group of their own, with the first
/// sentence of each where the verb has groups; `--help-all` shows all, by group. After an action (`agent init --help`)
/// options of other actions are left out.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
};

/// A name and, next to it, its description in lines that fit.
[[nodiscard]] std::string help_row(const std::string& name, std::string_view description);

/// Breaks text into lines of at most `width` characters. A longer word gets a line of its own.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width);

/// A script that completes the verbs and options of a program in bash, and paths for options that take a file or a
/// folder. `app` is the whole program.
[[nodiscard]] std::string bash_completion(const CLI::App& app);
/// The same script for zsh.
[[nodiscard]] std::string zsh_completion(const CLI::App& app);

/// Name of the manual page: `lowgear-plan-change` of `plan --change`.
[[nodiscard]] std::string page_name(const CLI::App& app);
/// Turns the help of `app`, which is a verb or the whole program, into a manual page (roff, section 1).
[[nodiscard]] std::string manual_page(const CLI::App& app);

}  // namespace lowgear::cli

#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lowgear::cli {

/// Help that fits a terminal of 80 columns: descriptions are wrapped next to the options. Of an option's long names it
/// shows the first alone; the others are earlier names, which the parser still accepts.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
};

/// Breaks text into lines of at most `width` characters. A longer word gets a line of its own.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width);

/// A script that completes the verbs and options of a program in bash, and paths for options that take a file or a
/// folder. `app` is the whole program.
[[nodiscard]] std::string bash_completion(const CLI::App& app);
/// The same script for zsh.
[[nodiscard]] std::string zsh_completion(const CLI::App& app);

/// Turns the help of `app`, which is a verb or the whole program, into a manual page (roff, section 1).
[[nodiscard]] std::string manual_page(const CLI::App& app);

}  // namespace lowgear::cli

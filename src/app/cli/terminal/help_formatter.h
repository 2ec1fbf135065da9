#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lowgear::cli {

/// Help that fits a terminal of 80 columns: descriptions are wrapped next to the options.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
};

/// Words in lines of at most `width` characters, where no single word is longer.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width);

}  // namespace lowgear::cli

#include "app/cli/terminal/help_formatter.h"

#include <sstream>

namespace lowgear::cli {
namespace {

constexpr std::size_t kScreen = 80;
constexpr std::size_t kColumn = 30;
constexpr std::size_t kIndent = 2;  ///< that CLI11 puts before a list of verbs

}  // namespace

std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string out;
  std::string word;
  std::size_t used = 0;
  while (words >> word) {
    const bool fits = used + 1 + word.size() <= width;
    if (!out.empty()) out += fits ? ' ' : '\n';
    used = fits && used > 0 ? used + 1 + word.size() : word.size();
    out += word;
  }
  return out;
}

HelpFormatter::HelpFormatter() { column_width(kColumn); }

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  std::string text;
  if (option->get_expected_max() != 0) text += " " + option->get_type_name();
  if (option->get_required()) text += " (required)";
  return text;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), kScreen - kColumn);
}

std::string HelpFormatter::make_subcommand(const CLI::App* verb) const {
  std::stringstream out;
  CLI::detail::format_help(out, verb->get_name(), wrapped(verb->get_description(), kScreen - kColumn),
                           kColumn - kIndent);
  return out.str();
}

}  // namespace lowgear::cli

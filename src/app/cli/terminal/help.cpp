#include "app/cli/terminal/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/core/version.h"

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

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  if (is_positional || option->get_lnames().empty()) return Formatter::make_option_name(option, is_positional);
  std::string names;
  for (const std::string& name : option->get_snames()) names += "-" + name + ",";
  return names + "--" + option->get_lnames().front();
}

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

namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Words with a blank between them.
template <typename Items, typename Text>
std::string words(const Items& items, Text text) {
  std::string out;
  for (const auto* item : items) {
    const std::string word = text(*item);
    if (!word.empty()) out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

std::string option_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : "--" + option.get_lnames().front();
}

/// The words that an option takes, with blanks in between; empty where it takes anything else. They are its type's
/// name: `single|grouped`, while `W|FILE` stands for values.
std::string choices_of(const CLI::Option& option) {
  std::string type = option.get_type_name();
  const auto upper = [](char character) { return character >= 'A' && character <= 'Z'; };
  if (type.find('|') == std::string::npos || std::ranges::any_of(type, upper)) return "";
  std::ranges::replace(type, '|', ' ');
  return type;
}

/// Text within single quotes of zsh's `_arguments`.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char character : text) {
    if (character == '\'') {
      out += R"('\'')";
    } else if (character == '[' || character == ']' || character == ':' || character == '\\') {
      out += std::string("\\") + character;
    } else {
      out += character;
    }
  }
  return out;
}

std::string zsh_option(const CLI::Option& option) {
  const std::string description = zsh_text(option.get_description());
  const std::string choices = choices_of(option);
  const std::string values = choices.empty() ? "_files" : fmt::format("({})", choices);
  if (option.get_positional()) return fmt::format("      '1:{}:{}'\n", zsh_text(option.get_name(true)), values);
  if (option_name(option).empty()) return "";
  const bool flag = option.get_expected_max() == 0;
  return fmt::format("      '{}[{}]{}'\n", option_name(option), description,
                     flag ? "" : fmt::format(":{}:{}", zsh_text(option.get_type_name()), values));
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  const auto verbs = verbs_of(app);
  const auto verb_name = [](const CLI::App& verb) { return verb.get_name(); };
  std::string script = fmt::format(
      "# bash completion for lowgear\n"
      "_lowgear() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} options= choices=\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W '{} {}' -- \"$word\")\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n",
      words(verbs, verb_name), words(app.get_options(), option_name));
  for (const CLI::App* verb : verbs) {
    script += fmt::format("    {}) options='{}' ;;\n", verb->get_name(), words(verb->get_options(), option_name));
  }
  script += "  esac\n  case ${COMP_WORDS[1]}.${COMP_WORDS[COMP_CWORD-1]} in\n";
  for (const CLI::App* verb : verbs) {
    for (const CLI::Option* option : verb->get_options()) {
      const std::string choices = choices_of(*option);
      if (choices.empty()) continue;
      const std::string before = option->get_positional() ? verb->get_name() : option_name(*option);
      script += fmt::format("    {}.{}) choices='{}' ;;\n", verb->get_name(), before, choices);
    }
  }
  script +=
      "  esac\n"
      "  if [ -n \"$choices\" ]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$word\")\n"
      "  elif [[ $word == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _lowgear lowgear\n";
  return script;
}

std::string zsh_completion(const CLI::App& app) {
  std::string script =
      "#compdef lowgear\n"
      "_lowgear() {\n"
      "  if (( CURRENT == 2 )); then\n"
      "    local -a verbs=(\n";
  for (const CLI::App* verb : verbs_of(app)) {
    script += fmt::format("      '{}:{}'\n", verb->get_name(), zsh_text(verb->get_description()));
  }
  script +=
      "    )\n"
      "    _describe verb verbs\n"
      "    return\n"
      "  fi\n"
      "  local -a arguments\n"
      "  case $words[2] in\n";
  for (const CLI::App* verb : verbs_of(app)) {
    script += fmt::format("    {}) arguments=(\n", verb->get_name());
    for (const CLI::Option* option : verb->get_options()) script += zsh_option(*option);
    script += "    ) ;;\n";
  }
  script +=
      "  esac\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  _arguments $arguments\n"
      "}\n"
      "_lowgear \"$@\"\n";
  return script;
}

namespace {

/// Text as roff prints it: backslashes and hyphens as they are, no line taken for a request.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char character : text) {
    if (line_start && (character == '.' || character == '\'')) out += "\\&";
    if (character == '\\') {
      out += "\\e";
    } else if (character == '-') {
      out += "\\-";
    } else {
      out += character;
    }
    line_start = character == '\n';
  }
  return out;
}

std::string name_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : name_of(*app.get_parent()) + " " + app.get_name();
}

std::string page_name(const CLI::App& app) {
  std::string name = name_of(app);
  for (char& character : name) {
    if (character == ' ') character = '-';
  }
  return name;
}

std::string option_text(const CLI::Option& option) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(option.get_name(option.get_positional())));
  if (option.get_expected_max() != 0) text += fmt::format(" \\fI{}\\fR", roff(option.get_type_name()));
  if (option.get_required()) text += " (required)";
  return text + fmt::format("\n{}.\n", roff(option.get_description()));
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  std::string page = fmt::format(".TH {} 1 \"\" \"Lowgear {}\" \"User Commands\"\n", roff(page_name(app)), version());
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(page_name(app)), roff(app.get_description()));
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  page += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR {}\n", roff(name_of(app)),
                      verbs.empty() ? "\\fIOPTIONS\\fR" : "\\fICOMMAND OPTIONS\\fR");
  page += ".SH OPTIONS\n";
  for (const CLI::Option* option : app.get_options()) page += option_text(*option);
  if (!verbs.empty()) page += ".SH VERBS\n";
  for (const CLI::App* verb : verbs) {
    page += fmt::format(".TP\n\\fB{}\\fR\n{}.\n", roff(verb->get_name()), roff(verb->get_description()));
  }
  page += fmt::format(".SH {}\n.nf\n{}\n.fi\n", verbs.empty() ? "EXAMPLE" : "NOTES", roff(app.get_footer()));
  page += ".SH EXIT STATUS\n0: success. 1: failure. 2: invalid usage or input.\n";
  return page;
}

}  // namespace lowgear::cli

#include "app/cli/terminal/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lowgear::cli {
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

}  // namespace lowgear::cli

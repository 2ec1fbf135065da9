#include "app/cli/terminal/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "base/core/environment.h"
#include "base/core/numbers/number.h"
#include "base/core/version.h"

namespace lowgear::cli {
namespace {

constexpr std::size_t kWidest = 80;
constexpr std::size_t kNarrowest = 40;
constexpr std::size_t kColumn = 30;
constexpr std::size_t kNarrowColumn = 8;
constexpr std::size_t kVerbColumn = 13;  ///< where the summaries of the first page begin
/// CLI11's name of the group that options are in if no other is stated.
constexpr const char* kBasicOptions = "Options";
/// The group of verbs that the first page names in one line.
constexpr std::string_view kMoreVerbs = "More";

/// Width of the lines: that of a narrower terminal, as COLUMNS or the terminal itself says.
std::size_t screen() {
  winsize size = {};
  long long columns = parse_integer(process_environment()("COLUMNS").value_or("")).value_or(0);
  if (columns <= 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns <= 0 ? kWidest : std::clamp(static_cast<std::size_t>(columns), kNarrowest, kWidest);
}

/// Where descriptions begin.
std::size_t column() { return screen() == kWidest ? kColumn : kNarrowColumn; }

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

std::string help_row(const std::string& name, std::string_view description) {
  std::stringstream out;
  CLI::detail::format_help(out, name, wrapped(std::string(description), screen() - column()), column());
  return out.str();
}

namespace {

bool has_groups(const CLI::App& verb) {
  return std::ranges::any_of(verb.get_groups(), [](const std::string& group) {
    return group != kBasicOptions && group != kFurtherOptions && !group.empty();
  });
}

/// Up to the first full stop or semicolon outside brackets.
std::string first_sentence(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (depth == 0 && (text[i] == '.' || text[i] == ';') && text[i + 1] == ' ') return text.substr(0, i);
  }
  return text;
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

/// The actions of a verb, and the one that the call names: `init` of `lowgear agent init --help`.
struct Actions {
  std::vector<std::string> all;
  std::string named;  ///< empty: none
};

Actions actions_of(const CLI::App& verb) {
  const auto arguments = verb.get_options([](const CLI::Option* one) { return one->get_positional(); });
  if (arguments.empty() || arguments.front()->results().empty()) return {};
  return {.all = CLI::detail::split(choices_of(*arguments.front()), ' '),
          .named = arguments.front()->results().front()};
}

/// The description of an option that goes with some actions begins with them: `serve, restore: print the changes ...`.
bool is_of_another_action(const CLI::Option& option, const Actions& actions) {
  const std::string& text = option.get_description();
  if (actions.named.empty()) return false;
  std::vector<std::string> names = CLI::detail::split(text.substr(0, text.find(": ")), ',');
  for (std::string& name : names) CLI::detail::trim(name);
  const auto is_action = [&actions](const std::string& name) { return std::ranges::count(actions.all, name) > 0; };
  return std::ranges::all_of(names, is_action) && std::ranges::count(names, actions.named) == 0;
}

/// All verbs but those of `kMoreVerbs` with a line each, by group.
std::string first_page(const CLI::App& app) {
  std::string page = wrapped(app.get_description(), screen()) + '\n';
  std::string more;
  std::vector<std::string> groups;
  for (const CLI::App* verb : app.get_subcommands({})) {
    const std::string& group = verb->get_group();
    if (group == kMoreVerbs) {
      more += (more.empty() ? "" : ", ") + verb->get_name();
    } else if (!group.empty() && std::ranges::find(groups, group) == groups.end()) {
      groups.push_back(group);
    }
  }
  for (const std::string& group : groups) {
    page += fmt::format("\n{}\n", group);
    for (const CLI::App* verb : app.get_subcommands({})) {
      if (verb->get_group() != group) continue;
      std::string summary = wrapped(verb->get_description(), screen() - kVerbColumn);
      summary = CLI::detail::find_and_replace(summary, "\n", "\n" + std::string(kVerbColumn, ' '));
      page += fmt::format("  {:<11}{}\n", verb->get_name(), summary);
    }
  }
  return page + fmt::format("\n{}\n{}\n", wrapped(fmt::format("{}: {}", kMoreVerbs, more), screen()),
                            wrapped(app.get_footer(), screen()));
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  if (app->get_parent() == nullptr) return first_page(*app);
  const bool is_short = mode != CLI::AppFormatMode::All && has_groups(*app);
  const auto row = [&](const CLI::Option& option, const std::string& names) {
    const std::string description = option.get_description();
    return help_row(names + make_option_opts(&option), is_short ? first_sentence(description) : description);
  };
  const Actions actions = actions_of(*app);
  std::string text = wrapped(app->get_description(), screen()) + '\n' + make_usage(app, std::move(name));
  std::string arguments;
  for (const CLI::Option* option : app->get_options([](const CLI::Option* one) { return one->get_positional(); })) {
    const std::string as_option = option->get_lnames().empty() ? "" : ",--" + option->get_lnames().front();
    arguments += row(*option, make_option_name(option, true) + as_option);
  }
  if (!arguments.empty()) text += "\nArguments:\n" + arguments;
  for (const std::string& group : app->get_groups()) {
    if (group.empty() || (mode != CLI::AppFormatMode::All && group != kBasicOptions)) continue;
    text += fmt::format("\n{}:\n", group);
    for (const CLI::Option* option : app->get_options(
             [&](const CLI::Option* one) { return one->get_group() == group && !one->get_positional(); })) {
      if (!is_of_another_action(*option, actions)) text += row(*option, make_option_name(option, false));
    }
  }
  return text + '\n' + app->get_footer();
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

namespace {

/// What completions know of the first word of a verb and its forms.
struct FirstWord {
  std::string word;
  std::string description;
  std::vector<std::string> second_words;         ///< of forms that are no options, or names of verbs
  std::vector<const CLI::Option*> options = {};  ///< of the verb and of its forms, each name once
};

bool names_verb(const CLI::Option& option) { return option.get_positional() && option.get_type_name() == kVerbType; }

void add_options(FirstWord& first, const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    const auto same_name = [&](const CLI::Option* known) {
      return known->get_positional() == option->get_positional() && option_name(*known) == option_name(*option);
    };
    if (names_verb(*option)) continue;
    const bool of_form = verb.get_name() != first.word;
    if (std::ranges::none_of(first.options, same_name) && !(of_form && option_name(*option).empty())) {
      first.options.push_back(option);
    }
  }
}

std::vector<FirstWord> first_words(const CLI::App& app) {
  std::vector<FirstWord> firsts;
  for (const CLI::App* verb : verbs_of(app)) {
    const std::string name = verb->get_name();
    const std::size_t blank = name.find(' ');
    // A form follows its verb.
    if (blank == std::string::npos) firsts.push_back({name, verb->get_description(), {}});
    FirstWord& first = firsts.back();
    if (std::ranges::any_of(verb->get_options(), [](const CLI::Option* one) { return names_verb(*one); })) {
      for (const CLI::App* of_page : verbs_of(app)) {
        first.second_words.push_back(page_name(*of_page).substr(page_name(app).size() + 1));
      }
    }
    if (blank != std::string::npos && name[blank + 1] != '-') first.second_words.push_back(name.substr(blank + 1));
    add_options(first, *verb);
  }
  FirstWord help{"help", "Show the options of a command", {}};
  for (const FirstWord& first : firsts) help.second_words.push_back(first.word);
  firsts.push_back(std::move(help));
  return firsts;
}

/// A line of bash's `case` for each option that takes one of some words.
std::string bash_choices(const FirstWord& first) {
  std::string script;
  for (const CLI::Option* option : first.options) {
    const std::string choices = choices_of(*option);
    if (choices.empty()) continue;
    const std::string before = option->get_positional() ? first.word : option_name(*option);
    script += fmt::format("    {}.{}) choices='{}' ;;\n", first.word, before, choices);
  }
  if (!first.second_words.empty()) {
    script += fmt::format("    {0}.{0}) choices='{1}' ;;\n", first.word, fmt::join(first.second_words, " "));
  }
  return script;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  const std::vector<FirstWord> firsts = first_words(app);
  std::string names;
  std::string options;
  std::string choices;
  for (const FirstWord& first : firsts) {
    names += first.word + ' ';
    options += fmt::format("    {}) options='{}' ;;\n", first.word, words(first.options, option_name));
    choices += bash_choices(first);
  }
  return fmt::format(
             "# bash completion for lowgear\n"
             "_lowgear() {{\n"
             "  local word=${{COMP_WORDS[COMP_CWORD]}} options= choices=\n"
             "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
             "    mapfile -t COMPREPLY < <(compgen -W '{}{}' -- \"$word\")\n"
             "    return\n"
             "  fi\n"
             "  case ${{COMP_WORDS[1]}} in\n",
             names, words(app.get_options(), option_name)) +
         options + "  esac\n  case ${COMP_WORDS[1]}.${COMP_WORDS[COMP_CWORD-1]} in\n" + choices +
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
}

std::string zsh_completion(const CLI::App& app) {
  std::string names;
  std::string options;
  for (const FirstWord& first : first_words(app)) {
    names += fmt::format("      '{}:{}'\n", first.word, zsh_text(first.description));
    options += fmt::format("    {}) arguments=(\n", first.word);
    if (!first.second_words.empty())
      options += fmt::format("      '1:word:({})'\n", fmt::join(first.second_words, " "));
    for (const CLI::Option* option : first.options) options += zsh_option(*option);
    options += "    ) ;;\n";
  }
  return "#compdef lowgear\n"
         "_lowgear() {\n"
         "  if (( CURRENT == 2 )); then\n"
         "    local -a verbs=(\n" +
         names +
         "    )\n"
         "    _describe verb verbs\n"
         "    return\n"
         "  fi\n"
         "  local -a arguments\n"
         "  case $words[2] in\n" +
         options +
         "  esac\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  _arguments $arguments\n"
         "}\n"
         "_lowgear \"$@\"\n";
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

std::string option_text(const CLI::Option& option) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(option.get_name(option.get_positional())));
  if (option.get_expected_max() != 0) text += fmt::format(" \\fI{}\\fR", roff(option.get_type_name()));
  if (option.get_required()) text += " (required)";
  return text + fmt::format("\n{}.\n", roff(option.get_description()));
}

bool runs_program(const CLI::App& app) {
  return std::ranges::any_of(app.get_options(), [](const CLI::Option* option) {
    return option->get_positional() && option->get_type_name() == kProgramType;
  });
}

/// The usage that --help shows: `lowgear agent [OPTIONS] [action]`.
std::string synopsis(const CLI::App& app) {
  std::string usage = HelpFormatter().make_usage(&app, name_of(app));
  CLI::detail::trim(usage);
  usage = usage.substr(usage.find(' ') + 1);  // without the word
  return roff(usage);
}

}  // namespace

std::string page_name(const CLI::App& app) {
  std::string name = CLI::detail::find_and_replace(name_of(app), " --", "-");
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string manual_page(const CLI::App& app) {
  std::string page = fmt::format(".TH {} 1 \"\" \"Lowgear {}\" \"User Commands\"\n", roff(page_name(app)), version());
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(page_name(app)), roff(app.get_description()));
  const std::vector<const CLI::App*> verbs = verbs_of(app);
  page += fmt::format(".SH SYNOPSIS\n{}\n", verbs.empty() ? synopsis(app) : "\\fBlowgear\\fR \\fICOMMAND OPTIONS\\fR");
  page += ".SH OPTIONS\n";
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional() == positional) page += option_text(*option);
    }
  }
  if (!verbs.empty()) page += ".SH VERBS\n";
  for (const CLI::App* verb : verbs) {
    page += fmt::format(".TP\n\\fB{}\\fR\n{}.\n", roff(verb->get_name()), roff(verb->get_description()));
  }
  const std::string footer = app.get_footer();
  const std::string examples = footer.starts_with(kExample) ? footer.substr(kExample.size()) : footer;
  page += fmt::format(".SH {}\n.nf\n{}\n.fi\n", verbs.empty() ? "EXAMPLE" : "NOTES", roff(examples));
  page += fmt::format(".SH EXIT STATUS\n{}1: failure. 2: invalid usage or input.\n",
                      runs_program(app) ? "That of the program. Where it cannot be run: " : "0: success. ");
  return page;
}

}  // namespace lowgear::cli

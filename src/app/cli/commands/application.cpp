#include "app/cli/commands/application.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/help.h"
#include "app/cli/terminal/process.h"
#include "base/core/error.h"
#include "base/core/log.h"
#include "base/core/text.h"
#include "base/core/version.h"

namespace lowgear::cli {
namespace {

constexpr std::string_view kDashes = "--";
constexpr const char* kVersion = "--version";

constexpr auto kOldWords = std::to_array<OldWord>({
    {"simulate", "verify --replay"},
    {"replan", "plan --change"},
    {"thin", "plan --thin"},
    {"inspect", "show"},
    {"schedule", "show"},
    {"evaluate", "published evaluate"},
    {"emulate", "published emulate"},
    {"experiment", "runs experiment"},
    {"report", "runs report"},
});

bool is_form(const Verb& verb) { return verb.group == group::kFormOfVerb; }

/// The second word of a form's name where the first is this verb; else empty.
std::string_view form_word(const Verb& form, std::string_view verb) {
  if (!is_form(form)) return {};
  const auto [first, second] = split_at(form.name, ' ');
  return first == verb ? second : std::string_view{};
}

std::string footer(const Verb& verb, std::span<const Verb> verbs) {
  std::string text = fmt::format("{}  {}\n", kExample, verb.example);
  std::string forms;
  for (const Verb& form : verbs) {
    if (!form_word(form, verb.name).empty()) forms += help_row(fmt::format("lowgear {}", form.name), form.summary);
  }
  if (!forms.empty()) text += "\nAlso, with --help of its own:\n" + forms;
  return text;
}

std::string names_of(std::span<const Verb> verbs) {
  std::string names;
  for (const Verb& verb : verbs) {
    if (!is_form(verb)) names += fmt::format("{}{}", names.empty() ? "" : ", ", verb.name);
  }
  return names;
}

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h" || word == "--help-all"; }

std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) {
  const auto nearest = nearest_name(word, names);
  return nearest ? fmt::format("; did you mean {}?", *nearest) : "";
}

UsageError no_verb(std::span<const Verb> verbs, std::span<const std::string> words) {
  std::vector<std::string_view> names;
  if (std::ranges::none_of(words, asks_for_help)) names.emplace_back("help");  // `help` is no command after help
  for (const Verb& verb : verbs) {
    if (!is_form(verb)) names.push_back(verb.name);
  }
  return {fmt::format("there is no command {}{}; the commands are {}", quote(words.front()),
                      did_you_mean(words.front(), names), names_of(verbs)),
          "lowgear --help"};
}

bool is_unknown_verb(std::span<const Verb> verbs, std::span<const std::string> words) {
  if (words.empty() || words.front().starts_with('-')) return false;
  return std::ranges::find(verbs, words.front(), &Verb::name) == verbs.end();
}

bool is_letter(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
}

/// As `did_you_mean`, or the first option that has the word among its own: `--global-batch` for `--batch`.
std::string did_you_mean_option(std::string_view option, std::span<const std::string_view> names) {
  std::string nearest = did_you_mean(option, names);
  if (!nearest.empty() || std::ranges::none_of(option, is_letter)) return nearest;
  const auto longer = std::ranges::find_if(names, [&](std::string_view name) { return has_words_of(name, option); });
  return longer == names.end() ? "" : fmt::format("; did you mean {}?", *longer);
}

/// `; did you mean --microbatches or --memory-limit?` of `-m`.
std::string options_of_letter(char letter, std::span<const std::string_view> names) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string_view> found;
  for (const std::string_view name : names) {
    if (name[kDashes.size()] == letter) found.push_back(name);
  }
  if (found.empty() || found.size() > kMost) return "; options have long names, as --help shows";
  return fmt::format("; did you mean {}?", fmt::join(found, " or "));
}

/// The first option among the arguments that the verb does not have, without its value. What stands after `--` is not
/// the verb's.
std::optional<std::string> unknown_option(const CLI::App& verb, std::span<const std::string> arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const bool is_long = argument.starts_with("--");
    const bool is_short = !is_long && argument.size() > 1 && argument[0] == '-' && is_letter(argument[1]);
    if (!is_long && !is_short) continue;
    std::string name = is_short ? argument.substr(0, 2) : argument.substr(0, argument.find('='));
    if (verb.get_option_no_throw(name) == nullptr) return name;
  }
  return std::nullopt;
}

std::string no_option_message(const CLI::App& verb, const std::string& option) {
  std::vector<std::string> names;
  for (const CLI::Option* known : verb.get_options()) {
    // The others are hidden.
    if (!known->get_lnames().empty()) names.push_back("--" + known->get_lnames().front());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (!option.starts_with(kDashes)) {
    return fmt::format("there is no option {}{}", printable(option), options_of_letter(option.back(), views));
  }
  if (option == kVersion) return "there is no option --version here: lowgear --version prints the version";
  return fmt::format("there is no option {}{}", printable(option), did_you_mean_option(option, views));
}

/// CLI11's words, but for an option that was given twice or without its value.
std::string message_of(const CLI::ParseError& error) {
  constexpr std::string_view kTooMany = ": At Most 1 required but received ";
  std::string text = error.what();
  if (const std::size_t place = text.find(kTooMany); place != std::string::npos) {
    const std::string times = text.substr(place + kTooMany.size());
    text = fmt::format("{}: given {}; give it once", text.substr(0, place), times == "2" ? "twice" : times + " times");
  }
  const std::size_t place = text.find(": 1 required ");
  if (place != std::string::npos && text.ends_with(" missing")) text = text.substr(0, place) + ": its value is missing";
  return printable(text, std::string_view::npos);
}

std::string first_example(std::span<const Verb> verbs, const std::string& name) {
  const std::string_view example = std::ranges::find(verbs, name, &Verb::name)->example;
  return std::string(example.substr(0, example.find('\n')));
}

/// A mistake in the command line.
UsageError usage_error(const CLI::App& app, std::span<const Verb> verbs, std::span<const std::string> arguments,
                       const CLI::ParseError& error) {
  const auto selected = app.get_subcommands();
  if (selected.empty()) {
    const auto unknown = unknown_option(app, arguments);
    if (unknown) return {no_option_message(app, *unknown), "lowgear --help"};
    return {fmt::format("a command is missing; the commands are {}", names_of(verbs)), "lowgear --help"};
  }
  const CLI::App& verb = *selected.front();
  // A misspelt option is reported as such, not by the required one that it was meant to be.
  const auto unknown =
      dynamic_cast<const CLI::ValidationError*>(&error) == nullptr ? unknown_option(verb, arguments) : std::nullopt;
  const bool is_incomplete = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  return {unknown         ? no_option_message(verb, *unknown)
          : is_incomplete ? message_of(error) + "; for example: " + first_example(verbs, verb.get_name())
                          : message_of(error),
          fmt::format("lowgear {} --help", verb.get_name())};
}

/// `help`, `help help`, `help VERB` and `help VERB --all` as `--help`, `--help`, `VERB --help` and `VERB --help-all`;
/// nothing as `--help`.
std::vector<std::string> with_help_option(std::span<const std::string> arguments) {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  if (!words.empty() && words.front() != "help") return words;
  while (!words.empty() && words.front() == "help") words.erase(words.begin());
  const bool wants_all = words.size() > 1 && words.back() == "--all";
  if (wants_all) words.pop_back();
  words.emplace_back(wants_all ? "--help-all" : "--help");
  return words;
}

/// The words of a form, with its name as the first, where they name it: `--change` or `--change=plan` anywhere among
/// the options, or `report` as the second word.
std::optional<std::vector<std::string>> words_of_form(const Verb& form, std::vector<std::string> words) {
  const std::string_view second = form_word(form, words.front());
  if (second.empty()) return std::nullopt;
  if (!second.starts_with(kDashes)) {
    if (words.size() < 2 || words[1] != second) return std::nullopt;
    words.erase(words.begin());
  } else {
    const auto end = std::ranges::find(words, kDashes);
    const auto names_form = [&](const std::string& word) { return split_at(word, '=').first == second; };
    if (std::none_of(words.begin(), end, names_form)) return std::nullopt;
    // Its option takes no request for help for its value.
    if (const auto help = std::find_if(words.begin(), end, asks_for_help); help != end) words = {"", *help};
  }
  words.front() = form.name;
  return words;
}

/// The words with the whole name of a verb or form as the first, which may have been an old word.
std::vector<std::string> with_whole_name(std::span<const Verb> verbs, std::vector<std::string> words) {
  if (words.empty()) return words;
  const auto old = std::ranges::find(old_words(), words.front(), &OldWord::word);
  if (old != old_words().end() && std::ranges::find(verbs, old->verb, &Verb::name) != verbs.end()) {
    words.front() = old->verb;
    return words;
  }
  for (const Verb& form : verbs) {
    if (auto named = words_of_form(form, words)) return *named;
  }
  return words;
}

/// What to say to a user of an old word.
std::optional<std::string> note_on_old_word(std::span<const std::string> words) {
  if (words.empty()) return std::nullopt;
  const auto old = std::ranges::find(old_words(), words.front(), &OldWord::word);
  if (old == old_words().end()) return std::nullopt;
  return fmt::format("lowgear {} is now lowgear {}; the old word will go", old->word, old->verb);
}

/// `words`: those of the command line, of which the first is a verb that has only forms.
UsageError no_form(std::span<const Verb> verbs, std::span<const std::string> words) {
  std::vector<std::string_view> forms;
  for (const Verb& form : verbs) {
    const std::string_view word = form_word(form, words.front());
    if (!word.empty()) forms.push_back(word);
  }
  const std::string nearest = words.size() > 1 ? did_you_mean(words[1], forms) : "";
  return {fmt::format("lowgear {}: say which: {}{}", words.front(), fmt::join(forms, " or "), nearest),
          fmt::format("lowgear {} --help", words.front())};
}

/// Options that name a file or folder refuse an empty name.
void require_names(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (option->get_positional() || (!type.ends_with("FILE") && !type.ends_with("DIR"))) continue;
    option->check([](const std::string& name) -> std::string { return name.empty() ? "its value is missing" : ""; });
  }
}

/// Options that may be repeated take one value each time: the words after it are positional. CLI11's would take them
/// all.
void take_one_value_each(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    if (!option->get_positional()) option->allow_extra_args(false);
  }
}

}  // namespace

std::span<const OldWord> old_words() { return kOldWords; }

Application::Application(std::vector<Verb> verbs)
    : verbs_(std::move(verbs)),
      app_("Lowgear makes large-model training use less energy without finishing later", "lowgear") {
  app_.set_version_flag(kVersion, version(), "Print the version");
  app_.set_help_flag("-h,--help", "Print help");
  app_.set_help_all_flag("--help-all", "Print help with all options");
  app_.require_subcommand(1);
  app_.formatter(std::make_shared<HelpFormatter>());  // the verbs take it over
  app_.footer("lowgear help COMMAND shows its options. Begin: lowgear example");
  for (const Verb& verb : verbs_) {
    CLI::App* app = app_.add_subcommand("", std::string(verb.summary));
    // CLI11 refuses a blank in the name that a subcommand is made with.
    app->name(std::string(verb.name))->group(std::string(verb.group));
    app->footer(footer(verb, verbs_));
    add_choice(
        *app, "--log-level", kLogLevelNames, [this](std::size_t place) { log_level_ = static_cast<LogLevel>(place); },
        "Lowest level of the messages on standard error; debug adds requests, decisions, clock writes and files. "
        "Programs that the command starts inherit the level (LOWGEAR_LOG)")
        ->default_str("info")
        ->group(std::string(kFurtherOptions));
    if (verb.declare != nullptr) actions_.emplace(verb.name, verb.declare(*app));
    take_one_value_each(*app);
    require_names(*app);
  }
}

void Application::heed_log_level() const {
  if (!log_level_) return set_log_level(process_environment());
  set_log_level(*log_level_);
  const std::string name(kLogLevelNames.at(static_cast<std::size_t>(*log_level_)));
  ::setenv(kLogVariable, name.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread yet
}

void Application::parse(std::span<const std::string> given) {
  const std::vector<std::string> words = with_whole_name(verbs_, {given.begin(), given.end()});
  if (is_unknown_verb(verbs_, words)) throw no_verb(verbs_, words);
  const bool has_only_forms = !words.empty() && !words.front().starts_with('-') && !actions_.contains(words.front());
  if (has_only_forms && std::ranges::none_of(words, asks_for_help)) throw no_form(verbs_, words);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::Success&) {  // help or version was asked for
    throw;
  } catch (const CLI::ParseError& error) {
    throw usage_error(app_, verbs_, words, error);
  }
  require_outputs_apart(*app_.get_subcommands().front());
}

const VerbAction& Application::action() const { return actions_.at(app_.get_subcommands().front()->get_name()); }

ExitCode Application::run_verb(std::span<const std::string> words, Console& console) {
  parse(words);
  if (const auto note = note_on_old_word(words)) console.note(*note);
  return take_action(console);
}

ExitCode Application::take_action(Console& console) {
  try {
    return action()(console);
  } catch (const Error&) {
    throw_if_interrupted();  // a read that a signal ended
    throw;
  } catch (const std::filesystem::filesystem_error& error) {
    if (error.path1().empty()) throw;
    throw Error(
        printable(fmt::format("{}: {}", error.path1().string(), error.code().message()), std::string_view::npos));
  }
}

ExitCode Application::parse_and_run(std::span<const std::string> arguments, Console& console) {
  const std::optional<std::string> note = note_on_old_word(arguments);
  const auto say_note = [&] {
    if (note) console.note(*note);
  };
  try {
    parse(with_help_option(arguments));
  } catch (const UsageError&) {
    say_note();
    throw;
  } catch (const CLI::CallForHelp&) {
    say_note();
    console.print(app_.help());
    return ExitCode::ok;
  } catch (const CLI::CallForAllHelp&) {
    say_note();
    console.print(app_.help("", CLI::AppFormatMode::All));
    return ExitCode::ok;
  } catch (const CLI::CallForVersion&) {
    console.print(fmt::format("lowgear {}\n", version()));
    return ExitCode::ok;
  }
  throw_if_interrupted();
  heed_log_level();
  console.set_level(log_level());
  say_note();
  return take_action(console);
}

int Application::run(std::span<const std::string> arguments, Console& console) {
  ExitCode code = ExitCode::failed;
  try {
    code = parse_and_run(arguments, console);
  } catch (const Interrupted&) {
    const std::string verb = app_.get_subcommands().front()->get_name();
    if (std::ranges::find(verbs_, verb, &Verb::name)->writes_at_end) console.warn("stopped, nothing written");
    throw;
  } catch (const UsageError& error) {
    console.error(fmt::format("{}; see {}", error.what(), error.help()));
    code = ExitCode::bad_usage;
  } catch (const InputError& error) {
    console.error(error.what());
    code = ExitCode::bad_usage;
  } catch (const Error& error) {
    console.error(error.what());
  } catch (const std::bad_alloc&) {
    console.error("there is not enough memory");
  } catch (const std::exception& error) {
    console.error(printable(error.what(), std::string_view::npos));
  }
  return static_cast<int>(code);
}

int run_program(int argc, char** argv, std::vector<Verb> verbs) {
  install_signal_handlers();
  TerminalConsole console(STDOUT_FILENO);
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return Application(std::move(verbs)).run(arguments, console);
  } catch (const Interrupted& interrupted) {
    raise_by_default(interrupted.signal);
    return EXIT_FAILURE;
  }
}

}  // namespace lowgear::cli

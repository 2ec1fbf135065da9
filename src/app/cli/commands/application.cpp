#include "app/cli/commands/application.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
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

std::string footer(const Verb& verb) { return fmt::format("Example:\n  {}\n", verb.example); }

std::string names_of(std::span<const Verb> verbs) {
  std::string names;
  for (const Verb& verb : verbs) names += fmt::format("{}{}", names.empty() ? "" : ", ", verb.name);
  return names;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) {
  const auto nearest = nearest_name(word, names);
  return nearest ? fmt::format("; did you mean {}?", *nearest) : "";
}

UsageError no_verb(std::span<const Verb> verbs, const std::string& word) {
  std::vector<std::string_view> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  return {fmt::format("there is no command {}{}; the commands are {}", quote(word), did_you_mean(word, names),
                      names_of(verbs)),
          "lowgear --help"};
}

bool is_unknown_verb(std::span<const Verb> verbs, std::span<const std::string> words) {
  if (words.empty() || words.front().starts_with('-')) return false;
  return std::ranges::find(verbs, words.front(), &Verb::name) == verbs.end();
}

/// The first option among the arguments that the verb does not have, without its value. What stands after `--` is not
/// the verb's.
std::optional<std::string> unknown_option(const CLI::App& verb, std::span<const std::string> arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (!argument.starts_with("--")) continue;
    std::string name = argument.substr(0, argument.find('='));
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
  return fmt::format("there is no option {}{}", printable(option), did_you_mean(option, views));
}

/// A mistake in the command line.
UsageError usage_error(const CLI::App& app, std::span<const Verb> verbs, std::span<const std::string> arguments,
                       const CLI::ParseError& error) {
  const auto selected = app.get_subcommands();
  if (selected.empty()) {
    return {fmt::format("a command is missing; the commands are {}", names_of(verbs)), "lowgear --help"};
  }
  const CLI::App& verb = *selected.front();
  // A misspelt option is reported as such, not by the required one that it was meant to be.
  const auto unknown =
      dynamic_cast<const CLI::ValidationError*>(&error) == nullptr ? unknown_option(verb, arguments) : std::nullopt;
  return {unknown ? no_option_message(verb, *unknown) : printable(error.what(), std::string_view::npos),
          fmt::format("lowgear {} --help", verb.get_name())};
}

/// `help` and `help VERB` as `--help` and `VERB --help`.
std::vector<std::string> with_help_option(std::span<const std::string> arguments) {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

}  // namespace

Application::Application(std::vector<Verb> verbs)
    : verbs_(std::move(verbs)),
      app_(
          "Lowgear makes large-model training use less energy without finishing later: every pipeline stage runs in "
          "the lowest gear (GPU clock) that still arrives on time.",
          "lowgear") {
  app_.set_version_flag("--version", version(), "Print the version");
  app_.set_help_flag("-h,--help", "Print help");
  app_.require_subcommand(1);
  app_.formatter(std::make_shared<HelpFormatter>());  // the verbs take it over
  app_.footer(
      "lowgear help COMMAND shows the options of a command, with an example.\n"
      "Exit codes: 0 success, 1 failure, 2 invalid usage or input.\n");
  for (const Verb& verb : verbs_) {
    CLI::App* app = app_.add_subcommand(std::string(verb.name), std::string(verb.summary));
    app->footer(footer(verb));
    add_choice(
        *app, "--log-level", kLogLevelNames, [this](std::size_t place) { log_level_ = static_cast<LogLevel>(place); },
        "Lowest level of the messages on standard error; debug adds requests, decisions, clock writes and files. "
        "Programs that the command starts inherit the level (LOWGEAR_LOG)")
        ->default_str("info");
    actions_.emplace(verb.name, verb.declare(*app));
  }
}

void Application::heed_log_level() const {
  if (!log_level_) return set_log_level(process_environment());
  set_log_level(*log_level_);
  const std::string name(kLogLevelNames.at(static_cast<std::size_t>(*log_level_)));
  ::setenv(kLogVariable, name.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no other thread yet
}

void Application::parse(std::span<const std::string> words) {
  if (is_unknown_verb(verbs_, words)) throw no_verb(verbs_, words.front());
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::Success&) {  // help or version was asked for
    throw;
  } catch (const CLI::ParseError& error) {
    throw usage_error(app_, verbs_, words, error);
  }
}

const VerbAction& Application::action() const { return actions_.at(app_.get_subcommands().front()->get_name()); }

ExitCode Application::run_verb(std::span<const std::string> words, Console& console) {
  parse(words);
  return action()(console);
}

ExitCode Application::parse_and_run(std::span<const std::string> arguments, Console& console) {
  try {
    parse(with_help_option(arguments));
  } catch (const CLI::CallForHelp&) {
    console.print(app_.help());
    return ExitCode::ok;
  } catch (const CLI::CallForVersion&) {
    console.print(fmt::format("lowgear {}\n", version()));
    return ExitCode::ok;
  }
  throw_if_interrupted();
  heed_log_level();
  console.set_level(log_level());
  return action()(console);
}

int Application::run(std::span<const std::string> arguments, Console& console) {
  ExitCode code = ExitCode::failed;
  try {
    code = parse_and_run(arguments, console);
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

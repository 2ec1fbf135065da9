#include "cli/application.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/help_formatter.h"
#include "cli/interrupt.h"
#include "cli/version.h"
#include "core/error.h"

namespace lowgear {
namespace {

std::string footer(const Verb& verb) { return fmt::format("Example:\n  {}\n", verb.example); }

std::string verb_names() {
  std::string names;
  for (const Verb& verb : verbs()) names += fmt::format("{}{}", names.empty() ? "" : ", ", verb.name);
  return names;
}

/// A mistake in the command line, in one line that ends in where help is.
std::string usage_message(const CLI::App& app, std::span<const std::string> arguments, const char* what) {
  const auto selected = app.get_subcommands();
  if (!selected.empty()) {
    return fmt::format("{}; see lowgear {} --help", printable(what, std::string_view::npos),
                       selected.front()->get_name());
  }
  const bool named = !arguments.empty() && !arguments.front().starts_with('-');
  const std::string problem = named ? "there is no verb " + quote(arguments.front()) : "a verb is missing";
  return fmt::format("{}; the verbs are {}; see lowgear --help", problem, verb_names());
}

}  // namespace

Application::Application()
    : app_(
          "Lowgear makes large-model training use less energy without finishing later: every pipeline stage runs in "
          "the lowest gear (GPU clock) that still arrives on time.",
          "lowgear") {
  app_.set_version_flag("--version", std::string(version()), "Print the version");
  app_.set_help_flag("-h,--help", "Print help");
  app_.require_subcommand(1);
  app_.formatter(std::make_shared<HelpFormatter>());  // the verbs take it over
  app_.footer(
      "lowgear VERB --help shows the options of a verb, with an example.\n"
      "Exit codes: 0 done, 1 failed, 2 bad usage or input.\n");
  for (const Verb& verb : verbs()) {
    CLI::App* app = app_.add_subcommand(std::string(verb.name), std::string(verb.summary));
    app->footer(footer(verb));
    actions_.emplace(verb.name, verb.declare(*app));
  }
}

ExitCode Application::parse_and_run(std::span<const std::string> arguments, Console& console) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    console.print(app_.help());
    return ExitCode::ok;
  } catch (const CLI::CallForVersion&) {
    console.print(fmt::format("lowgear {}\n", version()));
    return ExitCode::ok;
  } catch (const CLI::ParseError& error) {
    console.error(usage_message(app_, arguments, error.what()));
    return ExitCode::bad_usage;
  }
  throw_if_interrupted();
  return actions_.at(app_.get_subcommands().front()->get_name())(console);
}

int Application::run(std::span<const std::string> arguments, Console& console) {
  ExitCode code = ExitCode::failed;
  try {
    code = parse_and_run(arguments, console);
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

}  // namespace lowgear

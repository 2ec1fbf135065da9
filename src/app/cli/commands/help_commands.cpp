#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/help.h"
#include "base/core/error.h"

namespace lowgear::cli {

VerbAction declare_completion(CLI::App& app) {
  static constexpr auto kShells = std::to_array<std::string_view>({"bash", "zsh"});
  auto shell = std::make_shared<std::size_t>(0);
  add_choice(
      app, "shell", kShells, [shell](std::size_t place) { *shell = place; }, "Shell to print completions for")
      ->required();
  return [shell, &app](Console& console) {
    console.print(*shell == 0 ? bash_completion(*app.get_parent()) : zsh_completion(*app.get_parent()));
    return ExitCode::ok;
  };
}

VerbAction declare_man(CLI::App& app) {
  auto verb = std::make_shared<std::string>();
  app.add_option("verb", *verb,
                 "Command whose page is printed, with dashes for blanks, as plan-change (default: the program's page)")
      ->type_name(kVerbType);
  return [verb, &app](Console& console) {
    const CLI::App* const program = app.get_parent();
    const CLI::App* page = program;
    if (!verb->empty()) {
      const auto found = program->get_subcommands(
          [&](const CLI::App* candidate) { return page_name(*candidate) == "lowgear-" + *verb; });
      if (found.empty()) throw InputError(fmt::format("there is no command {}; see lowgear --help", quote(*verb)));
      page = found.front();
    }
    console.print(manual_page(*page));
    return ExitCode::ok;
  };
}

}  // namespace lowgear::cli

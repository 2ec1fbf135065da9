#include <array>
#include <memory>
#include <string_view>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/completion.h"

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

}  // namespace lowgear::cli

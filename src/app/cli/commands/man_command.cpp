#include <fmt/format.h>

#include <memory>
#include <string>

#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/manual.h"
#include "base/core/error.h"

namespace lowgear::cli {

VerbAction declare_man(CLI::App& app) {
  auto verb = std::make_shared<std::string>();
  app.add_option("verb", *verb, "Command whose page is printed (default: the program's page)")->type_name("VERB");
  return [verb, &app](Console& console) {
    const CLI::App* const program = app.get_parent();
    const CLI::App* page = program;
    if (!verb->empty()) {
      const auto found =
          program->get_subcommands([&](const CLI::App* candidate) { return candidate->get_name() == *verb; });
      if (found.empty()) throw InputError(fmt::format("there is no command {}; see lowgear --help", quote(*verb)));
      page = found.front();
    }
    console.print(manual_page(*page));
    return ExitCode::ok;
  };
}

}  // namespace lowgear::cli

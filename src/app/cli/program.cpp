#include "app/cli/program.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/commands/application.h"
#include "app/cli/terminal/interrupt.h"

namespace lowgear::cli {

int run_program(int argc, char** argv, std::vector<Verb> verbs) {
  install_signal_handlers();
  Console console(STDOUT_FILENO);
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return Application(std::move(verbs)).run(arguments, console);
  } catch (const Interrupted& interrupted) {
    raise_by_default(interrupted.signal);
    return EXIT_FAILURE;
  }
}

}  // namespace lowgear::cli

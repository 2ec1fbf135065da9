#include "app/cli/program.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "app/cli/commands/application.h"
#include "app/cli/terminal/interrupt.h"

namespace lowgear::cli {

int run_program(int argc, char** argv) {
  install_signal_handlers();
  Console console(STDOUT_FILENO);
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return Application().run(arguments, console);
  } catch (const Interrupted& interrupted) {
    raise_by_default(interrupted.signal);
    return EXIT_FAILURE;
  }
}

}  // namespace lowgear::cli

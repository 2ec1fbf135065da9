#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "app/cli/commands/application.h"
#include "app/cli/terminal/interrupt.h"

int main(int argc, char** argv) {
  lowgear::cli::install_signal_handlers();
  lowgear::cli::Console console(STDOUT_FILENO);
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return lowgear::cli::Application().run(arguments, console);
  } catch (const lowgear::cli::Interrupted& interrupted) {
    lowgear::cli::raise_by_default(interrupted.signal);
    return EXIT_FAILURE;
  }
}

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "app/cli/commands/application.h"
#include "app/cli/terminal/interrupt.h"

int main(int argc, char** argv) {
  lowgear::install_signal_handlers();
  lowgear::Console console(STDOUT_FILENO);
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return lowgear::Application().run(arguments, console);
  } catch (const lowgear::Interrupted& interrupted) {
    lowgear::raise_by_default(interrupted.signal);
    return EXIT_FAILURE;
  }
}

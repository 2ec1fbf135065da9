#pragma once

#include <span>
#include <string>

#include "hardware/measure/signal_guard.h"

namespace lowgear::measure {

/// How a command ended.
struct CommandResult {
  int exit_code = 0;  ///< meaningless when a signal ended it
  int signal = 0;     ///< the signal that ended it; 0 when it exited by itself

  /// As a shell reports it: 128 + signal for a command that a signal ended.
  [[nodiscard]] int shell_status() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// Where a command's standard output goes.
enum class CommandOutput : unsigned char { standard_output, standard_error };

/// Runs a program, found as a shell finds it, and waits for it. It receives every signal that `guard` blocks in this
/// process exactly once; signals that were sent to both are not sent again. So it ends as it would without this
/// process. Throws InputError when the program cannot be started, naming the reason.
[[nodiscard]] CommandResult run_command(std::span<const std::string> words, CommandOutput output, SignalGuard& guard);

}  // namespace lowgear::measure

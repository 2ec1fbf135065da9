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

/// Runs a program, found as a shell finds it, and waits for it. It gets every signal that `guard` keeps from this
/// process, once: those that were sent to both it has already. So it ends as it would alone. Throws InputError when the
/// program cannot be started, naming the reason.
[[nodiscard]] CommandResult run_command(std::span<const std::string> words, CommandOutput output, SignalGuard& guard);

}  // namespace lowgear::measure

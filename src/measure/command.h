#pragma once

#include <span>
#include <string>

namespace lowgear {

/// How a command ended.
struct CommandResult {
  int exit_code = 0;  ///< meaningless when a signal ended it
  int signal = 0;     ///< the signal that ended it; 0 when it exited by itself

  /// As a shell reports it: 128 + signal for a command that a signal ended.
  [[nodiscard]] int shell_status() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// Where a command's standard output goes.
enum class CommandOutput : unsigned char { standard_output, standard_error };

/// Keeps the signals that end programs from ending this one while it lives: SIGINT, SIGQUIT, SIGTERM and SIGHUP wait
/// for `run_command`, which passes them on. Threads that are started meanwhile leave them alone too, so this comes
/// first.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
};

/// Runs a program, found as a shell finds it, and waits for it. It gets every signal that would have ended this process
/// (those from a terminal it has got already, being in the same process group), so it ends as it would alone. Throws
/// InputError when the program cannot be started, naming the reason.
[[nodiscard]] CommandResult run_command(std::span<const std::string> words, CommandOutput output,
                                        const SignalGuard& guard);

}  // namespace lowgear

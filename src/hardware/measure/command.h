#pragma once

#include <sys/types.h>

#include <bitset>
#include <csignal>
#include <span>
#include <string>

namespace lowgear::measure {

/// Blocks the signals that end or notify programs (SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM,
/// SIGXCPU, SIGCONT) in this process while it lives; `next` takes them. Construct it before any thread, which inherits
/// the mask.
///
/// Schedulers signal one process, its group, or all processes of a job one by one, and a terminal signals the group. A
/// command in the same group then has the signal already. No signal says how it was sent, so a second process, the
/// witness, waits in the same group and job: a signal that the witness got too was sent to all. It has the name and the
/// arguments of the command, so that a signal by name (pkill, killall) reaches both or neither.
class SignalGuard {
 public:
  /// `command`: the words of the command that will run. Throws Error when no process can be started.
  explicit SignalGuard(std::span<const std::string> command);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  /// Waits for the next of these signals, or SIGCHLD.
  [[nodiscard]] int next();
  /// Whether the signal from `next` was sent to other processes of the group or job too. Takes 50 ms, the time that
  /// all of them are given to get it.
  [[nodiscard]] bool sent_to_all(int signal);

 private:
  void read_reports();

  struct sigaction previous_child_action_ = {};
  pid_t witness_ = -1;
  int reports_ = -1;             ///< a byte for every signal that the witness got
  int unanswered_ = 0;           ///< questions that the witness has yet to answer
  std::bitset<_NSIG> reported_;  ///< by the witness, and not returned by `sent_to_all` yet
};

/// How a command ended.
struct CommandResult {
  int exit_code = 0;  ///< meaningless when a signal ended it
  int signal = 0;     ///< the signal that ended it; 0 when it exited by itself
  int asked = 0;      ///< the first SIGINT, SIGTERM, SIGHUP or SIGQUIT that it was sent; 0: none

  /// As a shell reports it: 128 + signal for a command that a signal ended.
  [[nodiscard]] int shell_status() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// Where a command's standard output goes.
enum class CommandOutput : unsigned char { standard_output, standard_error };

/// Runs a program, found as a shell finds it, and waits for it. It receives every signal that `guard` blocks in this
/// process exactly once; signals that were sent to both are not repeated. So it ends as it would without this
/// process, and is killed where this process is, or the calling thread ends before it. Throws InputError when the
/// program cannot be started, naming the reason.
[[nodiscard]] CommandResult run_command(std::span<const std::string> words, CommandOutput output, SignalGuard& guard);

}  // namespace lowgear::measure

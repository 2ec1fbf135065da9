#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>

namespace lowgear::cli {

/// Thrown when a signal stops the work, so that unfinished output is removed during unwinding.
struct Interrupted {
  int signal = SIGINT;
};

/// Makes SIGINT, SIGTERM and SIGHUP set a flag that `throw_if_interrupted` looks at. Each does so once: a second one of
/// the same kind ends the program at once. SIGPIPE is ignored, so that a reader that closes the pipe (`| head`) causes
/// a failed write.
void install_signal_handlers();

/// Throws Interrupted after one of these signals, or where the caller of this thread has cancelled the call.
void throw_if_interrupted();

/// While it lives, this thread works for a caller within the process: `throw_if_interrupted` asks the caller in place
/// of the signals, and nothing is drawn on the terminal.
class CallWithinProcess {
 public:
  explicit CallWithinProcess(std::function<bool()> is_cancelled);
  ~CallWithinProcess();
  CallWithinProcess(const CallWithinProcess&) = delete;
  CallWithinProcess& operator=(const CallWithinProcess&) = delete;

  /// Whether this thread works for such a caller.
  [[nodiscard]] static bool is_running();
  [[nodiscard]] bool is_cancelled() const { return is_cancelled_(); }

 private:
  std::function<bool()> is_cancelled_;
};

/// From here on each of these signals ends the program at once: there is nothing to clean up. Throws
/// Interrupted when one of them has come.
void end_on_signals();

/// Sends the signals received so far to the process again, for code that then waits for them in another way.
void repeat_received_signal();

/// Ends the process by the signal itself, as its parent expects. Returns only when that is not possible.
void raise_by_default(int signal_number);

/// Memory that this process may still allocate: the available memory of the machine, or less in a limited control
/// group. Empty when the system does not say.
[[nodiscard]] std::optional<std::uint64_t> available_memory_bytes();

}  // namespace lowgear::cli

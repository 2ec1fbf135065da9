#pragma once

#include <csignal>

namespace lowgear::cli {

/// Thrown when a signal stops the work, so that unfinished output is removed during unwinding.
struct Interrupted {
  int signal = SIGINT;
};

/// Makes SIGINT, SIGTERM and SIGHUP set a flag that `throw_if_interrupted` looks at. Each does so once: a second one of
/// the same kind ends the program at once. SIGPIPE is ignored, so that a reader that closes the pipe (`| head`) causes
/// a failed write.
void install_signal_handlers();

/// Throws Interrupted when one of these signals has come.
void throw_if_interrupted();

/// From here on each of these signals ends the program at once: there is nothing to clean up. Throws
/// Interrupted when one of them has come.
void end_on_signals();

/// Sends the signals received so far to the process again, for code that then waits for them in another way.
void repeat_received_signal();

/// Ends the process by the signal itself, as its parent expects. Returns only when that is not possible.
void raise_by_default(int signal_number);

}  // namespace lowgear::cli

#pragma once

#include <csignal>

namespace lowgear::cli {

/// Thrown where work stops because a signal asked for it, so that whatever was being written is removed on the way out.
struct Interrupted {
  int signal = SIGINT;
};

/// Makes SIGINT, SIGTERM and SIGHUP set a flag that `throw_if_interrupted` looks at. Each does so once: a second one of
/// the same kind ends the program on the spot. SIGPIPE is ignored, so that a reader who has seen enough (`| head`)
/// shows as a failed write.
void install_signal_handlers();

/// Throws Interrupted when one of these signals has come.
void throw_if_interrupted();

/// From here on each of these signals ends the program on the spot, which has nothing to put back in order. Throws
/// Interrupted when one of them has come.
void end_on_signals();

/// Sends the process anew what has come so far: for whoever waits for these signals in another way from here on.
void repeat_received_signal();

/// Ends the process by the signal itself, as whoever waits for it expects. Returns only when that is not possible.
void raise_by_default(int signal_number);

}  // namespace lowgear::cli

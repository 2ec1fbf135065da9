#pragma once

#include <exception>
#include <functional>
#include <string>

namespace lowgear::trainer {

/// Runs the work of a program that is one rank, started alone or by a `lowgear` of the same release. Prints an error as
/// `error: ...` on standard error. Returns the exit status: that of the work, 2 for invalid input, kPeerLostExitCode
/// for a lost rank, 1 otherwise. Ignores SIGPIPE from then on: Gloo writes to connections whose other end may have
/// died, and its error names the lost rank.
[[nodiscard]] int run_rank(const std::function<int()>& work);

/// The first line of its text: libtorch's end with a stack trace.
[[nodiscard]] std::string first_line(const std::exception& error);

/// From now on SIGTERM, SIGHUP, and Ctrl-C without a launcher that catches it, ask the process to end in order; the
/// second one ends it. A SIGHUP or SIGINT that the process was started to ignore (nohup) stays ignored.
void end_in_order_when_told();
/// Whether such a signal was received.
[[nodiscard]] bool asked_to_end();
/// Exit status of work that was ended early: 128 + the signal's number, as in a shell; kEndedEarlyExitCode if another
/// rank received the signal.
[[nodiscard]] int ended_early_exit_code();

}  // namespace lowgear::trainer

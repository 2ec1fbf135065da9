#pragma once

#include <functional>

namespace lowgear::trainer {

/// Runs the work of a program that is one rank, started by none or a `lowgear` of the same release, and tells on
/// standard error why it could not continue, as `error: ...`. Returns the exit status: what the work returns, 2 for bad
/// input, kPeerLostExitCode for having lost another rank, 1 for all else. Ignores SIGPIPE from then on: Gloo writes to
/// connections whose other end may have died, and the error that it then gets names the lost rank.
[[nodiscard]] int run_rank(const std::function<int()>& work);

/// From now on SIGTERM, SIGHUP, and Ctrl-C where no launcher catches it, ask the process to end in order. Before, and
/// the second time, they end it. A SIGHUP or SIGINT that it was started to ignore (nohup) stays ignored.
void end_in_order_when_told();
/// Whether such a signal has come.
[[nodiscard]] bool asked_to_end();
/// Exit status of work that was ended early: 128 + the signal's number, as a shell has it; kEndedEarlyExitCode where
/// the signal came to another rank.
[[nodiscard]] int ended_early_exit_code();

}  // namespace lowgear::trainer

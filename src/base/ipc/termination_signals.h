#pragma once

#include <chrono>
#include <csignal>

#include "base/core/files/file_descriptor.h"

namespace lowgear::ipc {

/// SIGTERM, SIGINT and SIGHUP as something to wait for. From its construction on none of them ends or interrupts the
/// process, and none is lost: one that comes before anything waits for it is still there. Those that the process was
/// started to ignore stay ignored.
///
/// To be constructed before the process has any other thread: a thread inherits what is blocked.
class TerminationSignals {
 public:
  /// Throws Error when the system has no descriptors left.
  TerminationSignals();
  /// Forgets what has come, and gives the signals back their effect.
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  /// Whether one of them has come.
  [[nodiscard]] bool came() const { return came_within(std::chrono::milliseconds(0)); }
  /// The same; waits for one, and returns as soon as it comes.
  [[nodiscard]] bool came_within(std::chrono::milliseconds time) const;
  /// Readable once one of them has come, and from then on. Not to be read from.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  sigset_t before_{};  ///< what was blocked before
  FileDescriptor descriptor_;
};

}  // namespace lowgear::ipc

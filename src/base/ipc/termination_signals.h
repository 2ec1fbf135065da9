#pragma once

#include <chrono>
#include <csignal>
#include <optional>
#include <string_view>

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

/// Reports the state of the process to the service manager (sd_notify(3)): `READY=1`, `WATCHDOG=1`, `STOPPING=1`. Does
/// nothing without a service manager (NOTIFY_SOCKET), or when it does not listen.
void notify_service_manager(std::string_view state) noexcept;

/// How often the service manager wants to hear `WATCHDOG=1` (sd_watchdog_enabled(3)); empty when it does not.
[[nodiscard]] std::optional<std::chrono::microseconds> service_watchdog_period();

}  // namespace lowgear::ipc

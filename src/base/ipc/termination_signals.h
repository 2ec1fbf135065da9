#pragma once

#include <chrono>
#include <csignal>
#include <optional>
#include <string_view>

#include "base/core/files/file_descriptor.h"

namespace lowgear::ipc {

/// Waits for SIGTERM, SIGINT and SIGHUP. From its construction on, these signals neither end nor interrupt the process;
/// a signal that arrives before the wait is kept. Signals that the process was started to ignore stay ignored.
///
/// Construct it before the process starts another thread: threads inherit the mask of blocked signals.
class TerminationSignals {
 public:
  /// Throws Error when the system has no descriptors left.
  TerminationSignals();
  /// Forgets pending signals, and restores the effect of signals.
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  /// Whether a signal has arrived.
  [[nodiscard]] bool came() const { return came_within(std::chrono::milliseconds(0)); }
  /// Waits for a signal, at most for this time.
  [[nodiscard]] bool came_within(std::chrono::milliseconds time) const;
  /// Becomes and stays readable once a signal has arrived. Do not read from it.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  sigset_t before_{};  ///< blocked before
  FileDescriptor descriptor_;
};

/// Reports the state of the process to the service manager (sd_notify(3)): `READY=1`, `WATCHDOG=1`, `STOPPING=1`. Does
/// nothing without a service manager (NOTIFY_SOCKET), or when it does not listen.
void notify_service_manager(std::string_view state) noexcept;

/// How often the service manager wants to hear `WATCHDOG=1` (sd_watchdog_enabled(3)); empty when it does not.
[[nodiscard]] std::optional<std::chrono::microseconds> service_watchdog_period();

}  // namespace lowgear::ipc

#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace lowgear::ipc {

/// Tells the service manager how the process is (sd_notify(3)): `READY=1`, `WATCHDOG=1`, `STOPPING=1`. Does nothing
/// when no service manager asked for it (NOTIFY_SOCKET), and no harm when it is not listening.
void notify_service_manager(std::string_view state) noexcept;

/// How often the service manager wants to hear `WATCHDOG=1` (sd_watchdog_enabled(3)); empty when it does not.
[[nodiscard]] std::optional<std::chrono::microseconds> service_watchdog_period();

}  // namespace lowgear::ipc

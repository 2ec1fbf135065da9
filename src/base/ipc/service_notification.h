#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace lowgear::ipc {

/// Reports the state of the process to the service manager (sd_notify(3)): `READY=1`, `WATCHDOG=1`, `STOPPING=1`. Does
/// nothing without a service manager (NOTIFY_SOCKET), or when it does not listen.
void notify_service_manager(std::string_view state) noexcept;

/// How often the service manager wants to hear `WATCHDOG=1` (sd_watchdog_enabled(3)); empty when it does not.
[[nodiscard]] std::optional<std::chrono::microseconds> service_watchdog_period();

}  // namespace lowgear::ipc

#include "base/ipc/service_notification.h"

#include <sys/socket.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "base/core/files/file_descriptor.h"
#include "base/ipc/unix_address.h"

namespace lowgear::ipc {

namespace {

/// NOTIFY_SOCKET is an absolute path, or an abstract name after an `@`.
UnixAddress manager_at(std::string_view socket) {
  return socket.starts_with('@') ? UnixAddress::of_abstract_name(socket.substr(1)) : UnixAddress::of_path(socket);
}

void send_to_manager(std::string_view state, std::string_view manager) {
  const UnixAddress address = manager_at(manager);
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  // A manager that does not listen loses the message; the agent continues.
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT, address.get(), address.size());
}

}  // namespace

void notify_service_manager(std::string_view state) noexcept {
  const char* manager = std::getenv("NOTIFY_SOCKET");
  if (manager == nullptr || (manager[0] != '/' && manager[0] != '@')) return;
  try {
    send_to_manager(state, manager);
  } catch (const std::exception&) {
    // As well: an address that is none.
  }
}

std::optional<std::chrono::microseconds> service_watchdog_period() {
  const char* text = std::getenv("WATCHDOG_USEC");
  if (text == nullptr) return std::nullopt;
  long long period_us = 0;
  const char* end = text + std::strlen(text);
  const auto [parsed, error] = std::from_chars(text, end, period_us);
  if (error != std::errc() || parsed != end || period_us <= 0) return std::nullopt;
  return std::chrono::microseconds(period_us);
}

}  // namespace lowgear::ipc

#include "base/ipc/termination_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::ipc {

namespace {

sigset_t wanted_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction inherited = {};
    const bool ignored = ::sigaction(number, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&signals, number);
  }
  return signals;
}

}  // namespace

TerminationSignals::TerminationSignals() {
  const sigset_t signals = wanted_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  descriptor_ = FileDescriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (descriptor_) return;
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  throw Error("signals cannot be waited for: " + std::generic_category().message(error));
}

TerminationSignals::~TerminationSignals() {
  signalfd_siginfo signal{};
  while (::read(descriptor_.get(), &signal, sizeof(signal)) == static_cast<ssize_t>(sizeof(signal))) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool TerminationSignals::came_within(std::chrono::milliseconds time) const {
  pollfd ready{.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, static_cast<int>(time.count())) > 0;
}

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

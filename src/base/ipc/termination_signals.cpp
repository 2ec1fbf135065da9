#include "base/ipc/termination_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <string>
#include <system_error>

#include "base/core/error.h"

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

}  // namespace lowgear::ipc

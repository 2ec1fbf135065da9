#include "app/cli/terminal/process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

namespace lowgear::cli {
namespace {

// A handler can leave word in nothing but such a variable.
volatile std::sig_atomic_t received_signal = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

thread_local const CallWithinProcess* call_of_this_thread =
    nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

extern "C" void lowgear_note_signal(int signal_number) { received_signal = signal_number; }

/// A program started in the background by nohup or a shell must keep ignoring the signals that it was started to
/// ignore.
bool is_ignored(int signal_number) {
  struct sigaction inherited = {};
  return ::sigaction(signal_number, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = lowgear_note_signal;
  // Not SA_RESTART: a read of a terminal or a pipe from which nothing comes ends with the signal.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int signal_number : kSignals) {
    if (!is_ignored(signal_number)) ::sigaction(signal_number, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void throw_if_interrupted() {
  if (call_of_this_thread != nullptr) {
    if (call_of_this_thread->is_cancelled()) throw Interrupted{};
    return;
  }
  if (received_signal != 0) throw Interrupted{received_signal};
}

CallWithinProcess::CallWithinProcess(std::function<bool()> is_cancelled) : is_cancelled_(std::move(is_cancelled)) {
  call_of_this_thread = this;
}

CallWithinProcess::~CallWithinProcess() { call_of_this_thread = nullptr; }

bool CallWithinProcess::is_running() { return call_of_this_thread != nullptr; }

void end_on_signals() {
  for (const int signal_number : kSignals) {
    if (!is_ignored(signal_number)) std::signal(signal_number, SIG_DFL);
  }
  throw_if_interrupted();  // after that: a signal in between ends the program
}

void repeat_received_signal() {
  // To the process, not to this thread: whoever waits may be another one.
  if (received_signal != 0) ::kill(::getpid(), received_signal);
}

void raise_by_default(int signal_number) {
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

namespace {

std::optional<std::uint64_t> available_on_machine() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// The limit of the control group that a container runs in; a file with the word `max` has none.
std::optional<std::uint64_t> available_in_group() {
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return std::nullopt;
  return limit > used ? limit - used : 0;
}

}  // namespace

std::optional<std::uint64_t> available_memory_bytes() {
  const auto machine = available_on_machine();
  const auto group = available_in_group();
  if (machine && group) return std::min(*machine, *group);
  return machine ? machine : group;
}

}  // namespace lowgear::cli

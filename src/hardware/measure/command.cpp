#include "hardware/measure/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/core/error.h"

namespace lowgear::measure {

namespace {

/// Longest that a signal to many processes is taken to be on its way to the last of them.
constexpr std::chrono::milliseconds kDeliveryTime{50};
/// After which the witness is looked at that has not answered.
constexpr int kLookMs = 1000;

sigset_t guarded_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGCONT, SIGCHLD}) {
    sigaddset(&set, signal);
  }
  return set;
}

/// Asks the witness for an answer. It comes after the reports of all others: the lowest signal is taken first.
int question() { return SIGRTMAX; }

/// The memory of this process whose text is the command line that others see; empty where the kernel does not say.
std::span<char> shown_command_line() {
  constexpr int kFieldsToArguments = 48 - 3;  // proc(5): from the state, the first field after the name, to arg_start
  std::ostringstream stat;
  stat << std::ifstream("/proc/self/stat").rdbuf();
  std::istringstream fields(stat.str().substr(std::min(stat.str().rfind(')') + 1, stat.str().size())));
  std::string skipped;
  for (int field = 0; field < kFieldsToArguments; ++field) fields >> skipped;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return {};
  return {reinterpret_cast<char*>(begin), end - begin};
}

/// How the witness looks to programs that choose processes by name.
struct WitnessLook {
  std::string name;            ///< of the program
  std::string arguments;       ///< each with a NUL at its end
  std::span<char> place = {};  ///< where the kernel reads them
};

WitnessLook look_like(std::span<const std::string> command) {
  WitnessLook look{.name = "lowgear-signals", .arguments = {}, .place = shown_command_line()};
  if (!command.empty()) look.name = std::filesystem::path(command.front()).filename().string();
  for (const std::string& word : command) look.arguments += word + '\0';
  return look;
}

/// Reports every signal that this process gets, until the one that started it ends. Runs, with all signals blocked, in
/// a child of a process that may have threads: nothing here allocates.
[[noreturn]] void witness_signals(pid_t parent, int reports, const WitnessLook& look) {
  ::prctl(PR_SET_NAME, look.name.c_str());
  if (!look.place.empty()) {
    // The last byte stays NUL: otherwise the kernel takes the environment for more of it.
    std::memset(look.place.data(), 0, look.place.size());
    std::memcpy(look.place.data(), look.arguments.data(), std::min(look.arguments.size(), look.place.size() - 1));
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t all;
  sigfillset(&all);
  // What this process holds open would keep the readers of it waiting.
  ::dup2(reports, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0U, 0);
  while (::getppid() == parent) {
    const int signal = ::sigwaitinfo(&all, nullptr);
    if (signal <= 0) continue;
    const auto byte = static_cast<unsigned char>(signal);
    if (::write(STDIN_FILENO, &byte, 1) != 1) break;
  }
  ::_exit(0);
}

/// One that was stopped, or has ended, does not answer.
bool can_answer(pid_t witness) {
  siginfo_t state{};
  return ::waitid(P_PID, static_cast<id_t>(witness), &state, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) == 0 &&
         state.si_pid == 0;
}

[[noreturn]] void fail(int error) {
  throw Error(std::string("cannot start a process that watches for signals: ") + std::strerror(error));
}

}  // namespace

SignalGuard::SignalGuard(std::span<const std::string> command) {
  const WitnessLook look = look_like(command);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno);
  const sigset_t signals = guarded_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // The witness may be asked before it has run at all: no signal may end it then.
  sigset_t all;
  sigset_t guarded;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &guarded);
  // Where whoever started this process ignores it, the end of a child would never be heard of.
  ::sigaction(SIGCHLD, nullptr, &previous_child_action_);
  ::signal(SIGCHLD, SIG_DFL);
  const pid_t parent = ::getpid();
  witness_ = ::fork();
  if (witness_ == 0) witness_signals(parent, ends[1], look);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &guarded, nullptr);
  ::close(ends[1]);
  reports_ = ends[0];
  if (witness_ > 0) {
    read_reports();  // once it answers, it has the command's name
    return;
  }
  ::close(reports_);
  ::sigaction(SIGCHLD, &previous_child_action_, nullptr);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  fail(error);
}

SignalGuard::~SignalGuard() {
  ::kill(witness_, SIGKILL);
  ::waitpid(witness_, nullptr, 0);
  ::close(reports_);
  ::sigaction(SIGCHLD, &previous_child_action_, nullptr);
  const sigset_t signals = guarded_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int SignalGuard::next() {
  const sigset_t signals = guarded_signals();
  for (;;) {
    const int signal = ::sigwaitinfo(&signals, nullptr);
    if (signal > 0) return signal;  // otherwise interrupted by a signal that is not guarded
  }
}

bool SignalGuard::sent_to_all(int signal) {
  std::this_thread::sleep_for(kDeliveryTime);
  read_reports();
  const auto number = static_cast<std::size_t>(signal);
  const bool reported = reported_[number];
  // A signal that is pending again cannot be distinguished from the first: signals are not counted.
  sigset_t waiting;
  if (::sigpending(&waiting) == 0 && sigismember(&waiting, signal) == 0) reported_.reset(number);
  return reported;
}

void SignalGuard::read_reports() {
  if (::kill(witness_, question()) == 0) ++unanswered_;
  pollfd readable{.fd = reports_, .events = POLLIN, .revents = 0};
  while (unanswered_ > 0) {
    if (::poll(&readable, 1, kLookMs) <= 0) {
      if (can_answer(witness_)) continue;
      return;
    }
    unsigned char signal = 0;
    if (::read(reports_, &signal, 1) != 1) return;
    signal == question() ? static_cast<void>(--unanswered_) : static_cast<void>(reported_.set(signal));
  }
}

namespace {

/// What exec cannot do is reported through `failure`.
struct ChildStart {
  char* const* arguments;
  CommandOutput output;
  pid_t parent;
  int failure;
};

/// Becomes the program, whatever this process made of its signals. What was ignored when this process started (`nohup`)
/// stays so. Runs in a child of a process that may have threads: nothing here allocates.
[[noreturn]] void become(const ChildStart& start) {
  // SIGKILL cannot be passed on: the command ends with the process that waits for it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != start.parent) ::_exit(0);
  if (start.output == CommandOutput::standard_error) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const sigset_t guarded = guarded_signals();
  for (int number = 1; number < _NSIG; ++number) {
    struct sigaction action = {};
    if (sigismember(&guarded, number) != 1 || ::sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler != SIG_IGN) ::signal(number, SIG_DFL);  // before the mask opens
  }
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(start.arguments[0], start.arguments);
  const int error = errno;
  (void)!::write(start.failure, &error, sizeof error);
  ::_exit(127);
}

pid_t spawn(std::span<const std::string> words, CommandOutput output) {
  std::vector<char*> arguments;
  // execvp changes nothing and says otherwise
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  int error = ::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno;
  if (error == 0) {
    const ChildStart start{.arguments = arguments.data(), .output = output, .parent = ::getpid(), .failure = ends[1]};
    const pid_t child = ::fork();
    if (child == 0) become(start);
    error = child < 0 ? errno : 0;
    ::close(ends[1]);
    // Empty once the program runs.
    ssize_t count = 0;
    int reported = 0;
    while (child > 0 && (count = ::read(ends[0], &reported, sizeof reported)) < 0 && errno == EINTR) {
    }
    ::close(ends[0]);
    if (error == 0 && count != sizeof reported) return child;
    if (error == 0) {
      error = reported;
      ::waitpid(child, nullptr, 0);
    }
  }
  throw InputError("cannot run " + quote(words.front()) + ": " + std::strerror(error));
}

}  // namespace

namespace {

/// Whether a signal that was sent to `child` cannot have reached it: there it has its usual effect, which is to end a
/// process, does not wait, and the child lives. Signals that stop or continue say nothing.
bool has_missed(pid_t child, int signal) {
  std::ifstream status("/proc/" + std::to_string(child) + "/status");
  std::uint64_t signals = 0;  // that wait, or are blocked, ignored or caught
  bool is_alive = false;
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (std::string state; name == "State:" && fields >> state) is_alive = state != "Z" && state != "X";
    constexpr auto kMasks = std::to_array<std::string_view>({"SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"});
    std::uint64_t mask = 0;
    if (std::ranges::find(kMasks, name) != kMasks.end() && fields >> std::hex >> mask) signals |= mask;
  }
  return is_alive && signal != SIGCONT && (signals >> (signal - 1) & 1U) == 0;
}

}  // namespace

CommandResult run_command(std::span<const std::string> words, CommandOutput output, SignalGuard& guard) {
  if (words.empty()) throw InputError("there is no command to run; give one after --");
  const pid_t child = spawn(words, output);
  int asked = 0;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child && WIFSIGNALED(status)) return {.exit_code = 0, .signal = WTERMSIG(status), .asked = asked};
    if (ended == child) return {.exit_code = WEXITSTATUS(status), .signal = 0, .asked = asked};
    const int signal = guard.next();
    if (signal == SIGCHLD) continue;
    const bool asks = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (asks && asked == 0) asked = signal;
    if (!guard.sent_to_all(signal) || has_missed(child, signal)) kill(child, signal);
  }
}

}  // namespace lowgear::measure

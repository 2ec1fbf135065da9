#include "hardware/measure/command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
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

/// Reports every signal that this process gets, until the one that started it ends. Runs, with all signals blocked, in
/// a child of a process that may have threads: nothing here allocates.
[[noreturn]] void witness_signals(pid_t parent, int reports) {
  ::prctl(PR_SET_NAME, "lowgear-signals");
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

SignalGuard::SignalGuard() {
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
  if (witness_ == 0) witness_signals(parent, ends[1]);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &guarded, nullptr);
  ::close(ends[1]);
  reports_ = ends[0];
  if (witness_ > 0) return;
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

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

/// Signals and output of a child, independent of this process's own. Signals that were ignored when this process
/// started
/// (`nohup`) stay ignored.
class SpawnSettings {
 public:
  explicit SpawnSettings(CommandOutput output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    const sigset_t none = set_of({});
    const sigset_t by_default = set_of({SIGCHLD, SIGPIPE});
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &by_default);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (output == CommandOutput::standard_error) {
      posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);
    }
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  [[nodiscard]] pid_t spawn(std::span<const std::string> words) const {
    std::vector<char*> arguments;
    // posix_spawn changes nothing and says otherwise
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t child = 0;
    const int error = posix_spawnp(&child, arguments[0], &actions_, &attributes_, arguments.data(), environ);
    if (error != 0) throw InputError("cannot run " + quote(words.front()) + ": " + std::strerror(error));
    return child;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

CommandResult run_command(std::span<const std::string> words, CommandOutput output, SignalGuard& guard) {
  if (words.empty()) throw InputError("there is no command to run; give one after --");
  const pid_t child = SpawnSettings(output).spawn(words);
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child && WIFSIGNALED(status)) return {.exit_code = 0, .signal = WTERMSIG(status)};
    if (ended == child) return {.exit_code = WEXITSTATUS(status), .signal = 0};
    const int signal = guard.next();
    if (signal != SIGCHLD && !guard.sent_to_all(signal)) kill(child, signal);
  }
}

}  // namespace lowgear::measure

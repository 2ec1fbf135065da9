#include "measure/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace lowgear {
namespace {

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

sigset_t guarded_signals() { return set_of({SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD}); }

/// What a child starts with, whatever this process made of its signals and output.
class SpawnSettings {
 public:
  explicit SpawnSettings(CommandOutput output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    const sigset_t none = set_of({});
    const sigset_t by_default = set_of({SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE});
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

/// Passes a signal on, unless the terminal sent it: then the whole process group has it.
void pass_on(const siginfo_t& signal, pid_t child) {
  const bool from_terminal = signal.si_code == SI_KERNEL;
  if (!from_terminal) kill(child, signal.si_signo);
}

}  // namespace

SignalGuard::SignalGuard() {
  const sigset_t signals = guarded_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

SignalGuard::~SignalGuard() {
  const sigset_t signals = guarded_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

CommandResult run_command(std::span<const std::string> words, CommandOutput output, const SignalGuard& /*guard*/) {
  if (words.empty()) throw InputError("there is no command to run; give one after --");
  const pid_t child = SpawnSettings(output).spawn(words);
  const sigset_t signals = guarded_signals();
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child && WIFSIGNALED(status)) return {.exit_code = 0, .signal = WTERMSIG(status)};
    if (ended == child) return {.exit_code = WEXITSTATUS(status), .signal = 0};
    siginfo_t signal{};
    if (sigwaitinfo(&signals, &signal) < 0) continue;  // interrupted by a signal that is not ours
    if (signal.si_signo != SIGCHLD) pass_on(signal, child);
  }
}

}  // namespace lowgear

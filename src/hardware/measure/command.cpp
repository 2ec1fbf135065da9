#include "hardware/measure/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/core/error.h"

namespace lowgear::measure {
namespace {

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

/// What a child starts with, whatever this process made of its signals and output. What was ignored when this process
/// started (`nohup`) stays so.
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

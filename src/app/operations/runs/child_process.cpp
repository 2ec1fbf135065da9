#include "app/operations/runs/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"

namespace lowgear::operations {
namespace {

constexpr std::chrono::seconds kEndGrace{30};
constexpr std::chrono::milliseconds kEndPoll{20};
constexpr int kNotFound = 127;

/// In the child: only what is safe after a fork.
[[noreturn]] void become(char* const* words, char* const* environment, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kNotFound);
  ::setpgid(0, 0);
  std::signal(SIGPIPE, SIG_DFL);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execve(words[0], words, environment);
  ::_exit(kNotFound);
}

}  // namespace

ChildProcess::ChildProcess(const ChildCommand& command) {
  std::vector<std::string> words = command.arguments;
  words.insert(words.begin(), command.program.string());
  const ProgramWords arguments(std::move(words));
  const ProgramWords environment(environment_with(command.environment));
  const FileDescriptor output(::open(command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!output) {
    throw InputError(fmt::format("{}: cannot be written: {}", command.output.string(), ::strerrordesc_np(errno)));
  }
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0)
    throw Error(fmt::format("{}: cannot be started: {}", command.program.string(), ::strerrordesc_np(errno)));
  if (child_ == 0) become(arguments.get(), environment.get(), output.get(), parent);
}

ChildProcess::~ChildProcess() {
  if (status()) return;
  ::kill(child_, SIGTERM);
  for (const auto end = std::chrono::steady_clock::now() + kEndGrace; std::chrono::steady_clock::now() < end;) {
    if (status()) return;
    std::this_thread::sleep_for(kEndPoll);
  }
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

std::optional<int> ChildProcess::status() {
  if (status_) return status_;
  int status = 0;
  if (::waitpid(child_, &status, WNOHANG) != child_) return std::nullopt;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

}  // namespace lowgear::operations

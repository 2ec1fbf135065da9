#include "app/cli/runs/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"

namespace lowgear::cli {
namespace {

constexpr std::chrono::seconds kEndGrace{30};
constexpr std::chrono::milliseconds kEndPoll{20};
constexpr int kNotFound = 127;

std::vector<std::string> environment_of(const ChildCommand& command) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : command.environment) variables[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

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
  std::vector<std::string> variables = environment_of(command);
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> environment = pointers_to(variables);
  const FileDescriptor output(::open(command.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!output) {
    throw InputError(fmt::format("{}: cannot be written: {}", command.output.string(), ::strerrordesc_np(errno)));
  }
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0) throw Error(fmt::format("{}: cannot be started: {}", words.front(), ::strerrordesc_np(errno)));
  if (child_ == 0) become(arguments.data(), environment.data(), output.get(), parent);
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

}  // namespace lowgear::cli

#include "agent/mps/child_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"

namespace lowgear::agent {
namespace {

constexpr std::size_t kMaxInputBytes = 4096;  // a pipe holds as much without a reader
constexpr std::size_t kMaxOutputBytes = 16'384;
constexpr int kNotStarted = 127;

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(fmt::format("no pipe: {}", ::strerrordesc_np(errno)));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// In the child of a process with threads: only what is safe after a fork.
[[noreturn]] void become(char* const* words, char* const* environment, int input, int output) {
  ::setsid();
  ::umask(022);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) std::signal(number, SIG_DFL);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execve(words[0], words, environment);
  ::_exit(kNotStarted);
}

}  // namespace

ChildProgram::ChildProgram(boost::asio::io_context& io, const ProgramStart& start, std::function<void()> on_end)
    : on_end_(std::move(on_end)), reader_(io), process_(io) {
  std::vector<std::string> words = start.arguments;
  words.insert(words.begin(), start.program.string());
  const ProgramWords arguments(words);
  const ProgramWords environment(environment_with(start.environment));
  Pipe input = make_pipe();
  Pipe output = make_pipe();
  if (start.input.size() > kMaxInputBytes) throw Error("too much input for a program");
  (void)!::write(input.write_end.get(), start.input.data(), start.input.size());
  pid_ = ::fork();
  if (pid_ < 0) throw Error(fmt::format("{}: cannot be started: {}", words.front(), ::strerrordesc_np(errno)));
  if (pid_ == 0) become(arguments.get(), environment.get(), input.read_end.get(), output.write_end.get());
  ::fcntl(output.read_end.get(), F_SETFL, O_NONBLOCK);
  reader_.assign(output.read_end.release());
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (process < 0) {
    const int reason = errno;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    throw Error(fmt::format("{}: cannot be watched: {}", words.front(), ::strerrordesc_np(reason)));
  }
  process_.assign(process);
  read_output();
  wait_for_end();
}

ChildProgram::~ChildProgram() {
  constexpr std::chrono::seconds kPatience{1};  // a driver may hold it
  if (status()) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // if it has not made its session yet
  (void)wait_until(std::chrono::steady_clock::now() + kPatience);
}

void ChildProgram::keep(const char* text, std::size_t bytes) {
  output_.append(text, bytes);
  if (output_.size() > kMaxOutputBytes) output_.erase(0, output_.size() - kMaxOutputBytes);
}

void ChildProgram::read_output() {
  reader_.async_read_some(boost::asio::buffer(buffer_), [this, lives = std::weak_ptr(lives_)](
                                                            const boost::system::error_code& error, std::size_t bytes) {
    if (error || lives.expired()) return;
    keep(buffer_.data(), bytes);
    read_output();
  });
}

void ChildProgram::drain() noexcept {
  // As much as a pipe holds at most: a program of its own that holds on to the pipe and writes does not delay its end.
  constexpr int kMostReads = 256;
  for (int reads = 0; reads < kMostReads; ++reads) {
    const ssize_t bytes = ::read(reader_.native_handle(), buffer_.data(), buffer_.size());
    if (bytes <= 0) return;
    keep(buffer_.data(), static_cast<std::size_t>(bytes));
  }
}

void ChildProgram::wait_for_end() {
  process_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [this, lives = std::weak_ptr(lives_)](const boost::system::error_code& error) {
                        if (error || lives.expired()) return;
                        (void)status();
                        drain();
                        const std::function<void()> on_end = std::move(on_end_);
                        on_end();
                      });
}

std::optional<int> ChildProgram::status() {
  if (status_) return status_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

void ChildProgram::signal(int number) noexcept {
  if (!status()) ::kill(pid_, number);
}

bool ChildProgram::wait_until(std::chrono::steady_clock::time_point deadline) {
  constexpr std::chrono::milliseconds kPoll{5};
  while (!status()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  drain();
  return true;
}

}  // namespace lowgear::agent

#include "app/operations/doctor/program_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "app/cli/terminal/progress.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"

namespace lowgear::operations::doctor {
namespace {

constexpr int kPollMs = 10;

/// One output of a program: the reading end, and the bytes read so far.
class OutputPipe {
 public:
  OutputPipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    ours_ = FileDescriptor(ends[0]);
    theirs_ = FileDescriptor(ends[1]);
    ::fcntl(ours_.get(), F_SETFL, O_NONBLOCK);
  }

  [[nodiscard]] int ours() const { return ours_.get(); }
  [[nodiscard]] int theirs() const { return theirs_.get(); }
  void close_theirs() { theirs_.reset(); }
  /// Reads the available bytes; returns false once there are more than `limit`.
  [[nodiscard]] bool read(std::size_t limit) {
    std::array<char, 65536> bytes{};
    while (ours_ && text.size() <= limit) {
      const ssize_t size = ::read(ours_.get(), bytes.data(), bytes.size());
      if (size == 0) ours_.reset();
      if (size <= 0) break;
      text.append(bytes.data(), static_cast<std::size_t>(size));
    }
    return text.size() <= limit;
  }

  std::string text;

 private:
  FileDescriptor ours_;
  FileDescriptor theirs_;
};

/// How a program starts: without input, with its outputs in pipes, signals as a shell gives them, and as the leader of
/// a process group, by which all that it starts can be killed.
class SpawnSettings {
 public:
  SpawnSettings(const OutputPipe& out, const OutputPipe& err) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out.theirs(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err.theirs(), STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t by_default;
    sigemptyset(&none);
    sigemptyset(&by_default);
    for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) sigaddset(&by_default, signal);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &by_default);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  /// 0, or why it could not be started.
  [[nodiscard]] int spawn(pid_t& child, const ProgramWords& arguments, const ProgramWords& environment) const {
    return posix_spawnp(&child, arguments.get()[0], &actions_, &attributes_, arguments.get(), environment.get());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// A child that is killed with its process group where this ends before it.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (status_) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] bool ended() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_.has_value();
  }
  /// How it ended; empty for 0.
  [[nodiscard]] std::string end() const {
    if (WIFSIGNALED(*status_)) return fmt::format("was killed by signal {}", WTERMSIG(*status_));
    const int code = WEXITSTATUS(*status_);
    return code == 0 ? "" : fmt::format("ended with {}", code);
  }

 private:
  pid_t pid_;
  std::optional<int> status_;
};

/// Reads a child's output until the child ends; returns why it ended.
std::string watch(Child& child, OutputPipe& out, OutputPipe& err, const ProgramLimits& limits,
                  const std::function<void()>& between) {
  const cli::Stopwatch watch;
  const double limit_s = std::chrono::duration<double>(limits.time).count();
  while (true) {
    std::array<pollfd, 2> sources{
        {{.fd = out.ours(), .events = POLLIN, .revents = 0}, {.fd = err.ours(), .events = POLLIN, .revents = 0}}};
    ::poll(sources.data(), sources.size(), kPollMs);
    const bool ended = child.ended();  // before its output is read
    const bool short_enough = out.read(limits.bytes) && err.read(limits.bytes);
    if (!short_enough) return fmt::format("printed more than {} bytes and was ended", limits.bytes);
    if (ended) return child.end();
    if (watch.elapsed_s() > limit_s) return fmt::format("did not end within {:g} s and was killed", limit_s);
    if (between) between();
  }
}

}  // namespace

ProgramOutput run_for_output(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables,
                             const ProgramLimits& limits, const std::function<void()>& between) {
  OutputPipe out;
  OutputPipe err;
  pid_t pid = 0;
  if (const int error =
          SpawnSettings(out, err).spawn(pid, ProgramWords(words), ProgramWords(environment_with(variables)));
      error != 0) {
    return {.out = {}, .err = {}, .problem = fmt::format("cannot be started: {}", ::strerrordesc_np(error))};
  }
  Child child(pid);
  out.close_theirs();
  err.close_theirs();
  std::string problem = watch(child, out, err, limits, between);
  return {.out = std::move(out.text), .err = std::move(err.text), .problem = std::move(problem)};
}

}  // namespace lowgear::operations::doctor

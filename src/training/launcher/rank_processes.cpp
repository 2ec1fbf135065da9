#include "training/launcher/rank_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/version.h"

namespace lowgear::launcher {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 50;
constexpr std::size_t kLongestLine = 4096;
/// Read from one rank before the others have their turn.
constexpr std::size_t kMostReads = 16;

struct Rank {
  pid_t pid = 0;
  FileDescriptor errors;
  std::string line;       ///< what has come of a line so far
  std::string last_line;  ///< the last whole one
  bool running = true;
};

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with {}", WEXITSTATUS(status));
}

std::map<std::string, std::string> environment_of(const RankCommand& command, int rank) {
  std::map<std::string, std::string> variables = environment_with({});
  variables["RANK"] = variables["LOCAL_RANK"] = fmt::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = fmt::to_string(command.world_size);
  // BLAS libraries read these when they are loaded. A thread that spins while it waits takes another rank's core.
  const std::string threads = variables.try_emplace("OMP_NUM_THREADS", fmt::to_string(command.threads)).first->second;
  variables.try_emplace("OPENBLAS_NUM_THREADS", threads);
  variables.try_emplace("MKL_NUM_THREADS", threads);
  variables.try_emplace("OMP_WAIT_POLICY", "passive");
  for (const auto& [name, value] : command.environment) variables[name] = value;
  return variables;
}

/// In the child: becomes the rank.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment, int errors,
                         bool has_output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it had died before
  ::setpgid(0, 0);                          // Ctrl-C is for the launcher, which ends the ranks in order
  ::dup2(errors, STDERR_FILENO);
  if (!has_output) ::dup2(errors, STDOUT_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(program, arguments, environment);
  const std::string_view text = "cannot be started: ";
  const std::string_view reason = ::strerrordesc_np(errno);
  (void)(::write(STDERR_FILENO, text.data(), text.size()) < 0);
  (void)(::write(STDERR_FILENO, reason.data(), reason.size()) < 0);
  ::_exit(127);
}

class RankSet {
 public:
  RankSet(const RankCommand& command, const std::function<void(int, std::string_view)>& error_line)
      : command_(&command), error_line_(&error_line) {}
  ~RankSet() {
    signal_all(SIGKILL);
    for (Rank& rank : ranks_) {
      if (rank.running) ::waitpid(rank.pid, nullptr, 0);
    }
  }
  RankSet(const RankSet&) = delete;
  RankSet& operator=(const RankSet&) = delete;

  std::optional<RankFailure> run(const std::function<bool()>& asked_to_end) {
    for (int rank = 0; rank < command_->world_size; ++rank) start(rank);
    bool asked = false;
    while (running() > 0) {
      read_errors();
      reap();
      if (!asked && asked_to_end()) {
        asked = true;
        end_within(command_->end_grace);
      }
      if (failure_) end_within(command_->grace);
      if (!killed_ && kill_at_ && Clock::now() > *kill_at_) kill_all();
    }
    return std::move(failure_);
  }

 private:
  /// Why a job failed: the later ones tell more.
  enum class Reason : unsigned char { lost_another, gave_up, was_killed };

  void start(int number) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    Rank rank;
    rank.errors = FileDescriptor(ends[0]);
    const FileDescriptor theirs(ends[1]);
    std::vector<std::string> words = {command_->program.string()};
    words.insert(words.end(), command_->arguments.begin(), command_->arguments.end());
    const ProgramWords arguments(std::move(words));
    const ProgramWords environment(environment_of(*command_, number));
    const pid_t parent = ::getpid();
    rank.pid = ::fork();
    if (rank.pid < 0) throw Error(fmt::format("cannot start rank {}: {}", number, std::strerror(errno)));
    if (rank.pid == 0) {
      become(command_->program.c_str(), arguments.get(), environment.get(), theirs.get(), number == 0, parent);
    }
    ::fcntl(rank.errors.get(), F_SETFL, O_NONBLOCK);
    ranks_.push_back(std::move(rank));
  }

  [[nodiscard]] std::ptrdiff_t running() const { return std::ranges::count(ranks_, true, &Rank::running); }

  /// Asks the ranks to end, at the first call; a later one may shorten the time.
  void end_within(std::chrono::milliseconds grace) {
    if (!kill_at_) signal_all(SIGTERM);
    const Clock::time_point limit = Clock::now() + grace;
    kill_at_ = std::min(kill_at_.value_or(limit), limit);
  }

  void kill_all() {
    killed_ = true;
    for (int number = 0; number < static_cast<int>(ranks_.size()); ++number) {
      if (ranks_[static_cast<std::size_t>(number)].running)
        (*error_line_)(number, "did not end in time and was killed");
    }
    signal_all(SIGKILL);
  }

  void signal_all(int number) {
    for (const Rank& rank : ranks_) {
      if (rank.running) ::kill(rank.pid, number);
    }
  }

  void read_errors() {
    std::vector<pollfd> sources;
    for (const Rank& rank : ranks_) {
      sources.push_back({.fd = rank.errors.get(), .events = POLLIN, .revents = 0});  // closed ones are -1: ignored
    }
    if (::poll(sources.data(), sources.size(), kPollMs) <= 0) return;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].revents != 0) read_errors_of(static_cast<int>(i));
    }
  }

  void read_errors_of(int number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    std::array<char, 4096> bytes{};
    ssize_t size = 1;
    for (std::size_t i = 0; i < kMostReads && size > 0; ++i) {
      size = ::read(rank.errors.get(), bytes.data(), bytes.size());
      if (size <= 0) break;
      for (const char c : std::string_view(bytes.data(), static_cast<std::size_t>(size))) {
        if (c != '\n' && rank.line.size() < kLongestLine) rank.line += c;
        if (c == '\n') say(number, rank);
      }
    }
    if (size == 0) rank.errors.reset();
  }

  void say(int number, Rank& rank) {
    rank.last_line = std::exchange(rank.line, {});
    (*error_line_)(number, rank.last_line);
  }

  void reap() {
    for (int number = 0; number < static_cast<int>(ranks_.size()); ++number) {
      Rank& rank = ranks_[static_cast<std::size_t>(number)];
      int status = 0;
      if (!rank.running || ::waitpid(rank.pid, &status, WNOHANG) != rank.pid) continue;
      rank.running = false;
      if (rank.errors) read_errors_of(number);
      if (!rank.line.empty()) say(number, rank);
      note_end(number, status);
    }
  }

  void note_end(int number, int status) {
    const std::optional<Reason> reason = reason_of(status);
    if (!reason || (failure_ && *reason <= reason_)) return;
    failure_ = {.rank = number,
                .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                .how = how_it_ended(status),
                .why = ranks_[static_cast<std::size_t>(number)].last_line};
    reason_ = *reason;
  }

  /// None for a rank that ended well, or as it was asked to.
  [[nodiscard]] std::optional<Reason> reason_of(int status) const {
    if (status == 0) return std::nullopt;
    if (WIFEXITED(status)) {
      if (kill_at_ && WEXITSTATUS(status) == kEndedEarlyExitCode) return std::nullopt;
      return WEXITSTATUS(status) == kPeerLostExitCode ? Reason::lost_another : Reason::gave_up;
    }
    const int signal = WTERMSIG(status);
    const bool by_us = (kill_at_ && signal == SIGTERM) || (killed_ && signal == SIGKILL);
    return by_us ? std::nullopt : std::optional(Reason::was_killed);
  }

  const RankCommand* command_;
  const std::function<void(int, std::string_view)>* error_line_;
  std::vector<Rank> ranks_;
  std::optional<RankFailure> failure_;
  Reason reason_ = Reason::lost_another;      ///< of the failure
  std::optional<Clock::time_point> kill_at_;  ///< the ranks have been asked to end, and are killed then
  bool killed_ = false;                       ///< that time has come
};

}  // namespace

std::optional<RankFailure> run_ranks(const RankCommand& command,
                                     const std::function<void(int, std::string_view)>& error_line,
                                     const std::function<bool()>& asked_to_end) {
  RankSet ranks(command, error_line);
  return ranks.run(asked_to_end);
}

int threads_per_rank(int ranks) {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(CPU_COUNT(&cores) / std::max(ranks, 1), 1);
}

void require_release_of(const std::optional<std::string>& launcher) {
  if (!launcher || *launcher == version()) return;
  throw InputError(fmt::format(
      "lowgear is {} and the program of its ranks {}; install both of one release (Debian: apt-get install lowgear "
      "lowgear-trainer)",
      printable(*launcher, 40), version()));
}

}  // namespace lowgear::launcher

#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mps/child_program.h"

namespace lowgear::agent {

/// Where the daemon of one GPU has its files, below the folder of the agent's daemons.
struct MpsFolders {
  std::filesystem::path root;  ///< FOLDER/UUID
  [[nodiscard]] std::filesystem::path pipe() const { return root / "pipe"; }
  [[nodiscard]] std::filesystem::path log() const { return root / "log"; }
};

/// Processes of MPS that use this pipe directory: by the name `program` (a file name) or that of MPS' servers, and the
/// variable CUDA_MPS_PIPE_DIRECTORY that they were started with. Of processes whose environment this user may not read,
/// nothing is known.
[[nodiscard]] std::vector<pid_t> find_mps_processes(const std::filesystem::path& pipe_directory,
                                                    std::string_view program);

/// Ends them: SIGTERM, and SIGKILL after two seconds. Returns how many there were.
std::size_t end_mps_processes(const std::filesystem::path& pipe_directory, std::string_view program);

/// Ends what an earlier agent has left below `folder`, daemons and directories, and reports each with `note`. Does
/// nothing where there is no such folder. Throws InputError where another user could have put something there, and
/// Error when something cannot be removed.
void end_stray_daemons(const std::filesystem::path& folder, std::string_view program,
                       const std::function<void(std::string_view)>& note);

/// The section `mps` of the configuration, and times that it does not set. Closed by default: without `gpus` the agent
/// starts no daemon and gives no shares.
struct MpsOptions {
  std::vector<std::string> gpus;  ///< UUIDs or PCI addresses of the GPUs for which the agent runs a daemon
  gid_t group = 0;                ///< who may use the daemons, and ask for shares, besides root
  std::filesystem::path folder = "/run/lowgear/mps";
  std::filesystem::path program = "/usr/bin/nvidia-cuda-mps-control";
  int max_percent = 100;                    ///< largest sum of the shares of one GPU
  std::chrono::milliseconds grace{5'000};   ///< how long clients may take to end when the agent ends
  std::chrono::milliseconds start{30'000};  ///< from the start of a daemon to its first response
  /// A daemon that does not respond for so long is replaced, which ends CUDA in its jobs.
  std::chrono::milliseconds answer{30'000};
  std::chrono::milliseconds check{5'000};  ///< between two requests for one
  std::chrono::milliseconds retry{1'000};  ///< before a daemon that has ended is started again; doubles each time
  std::chrono::milliseconds retry_at_most{60'000};
};

enum class MpsState : unsigned char {
  refused,   ///< the GPU cannot have a daemon
  starting,  ///< it has not responded yet
  running,
  waiting,  ///< it has ended or did not start, and is started again later
  ended,    ///< the agent ends
};
[[nodiscard]] std::string_view name(MpsState state);

/// Asks a daemon, as its users do: by its own program, which passes lines of standard input on.
class MpsClient {
 public:
  MpsClient(boost::asio::io_context& io, const MpsOptions& options) : io_(io), options_(options), timer_(io) {}

  /// Passes one command on. `then` receives whether the daemon responded in time; no further question is asked before.
  /// Throws Error when the program cannot be started.
  void ask(const MpsFolders& folders, const std::string& command, std::chrono::milliseconds patience,
           std::function<void(bool)> then);
  /// Forgets the question; `then` is not called.
  void forget();

 private:
  boost::asio::io_context& io_;
  const MpsOptions& options_;
  std::unique_ptr<ChildProgram> program_;
  boost::asio::steady_timer timer_;
};

/// Keeps the MPS control daemon of one GPU running: starts it in the foreground with directories of its own, asks it at
/// regular times whether it lives, and starts it again when it does not, later each time. All calls are made on the
/// thread of the io_context.
class MpsDaemon {
 public:
  struct Messages {
    std::function<void(std::string_view)> note;
    std::function<void(std::string_view)> warn;
  };

  /// `options` must outlive this.
  MpsDaemon(boost::asio::io_context& io, const MpsOptions& options, std::string gpu_uuid, Messages messages);
  ~MpsDaemon();
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;

  void start();
  /// Tells it to end, and to end clients that take longer than the options' grace, without waiting.
  void begin_to_end();
  /// Waits for its end, then kills its remaining processes and removes its directories. Returns what could not be
  /// removed; empty when nothing is left.
  [[nodiscard]] std::string end();

  [[nodiscard]] MpsState state() const { return state_; }
  /// 0 while there is none.
  [[nodiscard]] pid_t pid() const { return program_ ? program_->pid() : 0; }
  [[nodiscard]] int restarts() const { return attempts_.restarts; }
  /// Why it does not run; empty when it does.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] const MpsFolders& folders() const { return folders_; }

 private:
  void make_folders() const;
  void ask_whether_it_lives();
  void has_responded(bool good);
  /// It has ended, or has to be ended: starts it again later.
  void fail(const std::string& why);
  void wait_and_then(std::chrono::milliseconds time, void (MpsDaemon::*next)());
  [[nodiscard]] std::chrono::milliseconds time_to_retry() const;

  struct Attempts {
    int restarts = 0;  ///< since the agent's start
    int failures = 0;  ///< since it last ran for long
    std::chrono::steady_clock::time_point since;
  };

  boost::asio::io_context& io_;
  const MpsOptions& options_;
  std::string gpu_uuid_;
  Messages messages_;
  MpsFolders folders_;
  MpsState state_ = MpsState::waiting;
  std::string problem_;
  Attempts attempts_;
  std::unique_ptr<ChildProgram> program_;
  MpsClient client_;
  boost::asio::steady_timer timer_;  ///< for what comes next
};

}  // namespace lowgear::agent

#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::launcher {

/// Exit code of a rank that ended because it has lost another one.
inline constexpr int kPeerLostExitCode = 3;
/// Exit code of a rank that ended on request before its work was done: the one that a shell reports for a program ended
/// by SIGTERM.
inline constexpr int kEndedEarlyExitCode = 128 + SIGTERM;

/// The command of this machine's ranks.
struct RankCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  int world_size = 1;
  int threads = 1;                                 ///< of each rank, unless OMP_NUM_THREADS is set
  std::map<std::string, std::string> environment;  ///< in addition to this process' own
  /// Time that the other ranks have to end after one has failed.
  std::chrono::milliseconds grace{10'000};
  /// Time that all ranks have to end on request: they finish their step and write a checkpoint.
  std::chrono::milliseconds end_grace{600'000};
};

/// The rank that ended the job.
struct RankFailure {
  int rank = 0;
  int exit_code = -1;  ///< -1: a signal ended it
  int signal = 0;      ///< 0: it ended by itself
  std::string how;     ///< "was killed by signal 9 (Killed)", "ended with 1"
  std::string why;     ///< the last line that it wrote to its standard error; may be empty
};

/// Runs all ranks as child processes until they have ended. Rank 0 has this process' standard output; lines that ranks
/// write to standard error (and the others to standard output) go to `error_line` with their rank. When a rank fails,
/// or `asked_to_end` returns true, all are asked to end (SIGTERM), and killed after the grace; they may then end with
/// kEndedEarlyExitCode, which no rank may before. No rank outlives this process. Returns the rank that failed first in
/// this order, or nothing: killed by a signal, ended by itself, lost another rank (kPeerLostExitCode). Throws
/// Error when a rank cannot be started; none runs then.
[[nodiscard]] std::optional<RankFailure> run_ranks(const RankCommand& command,
                                                   const std::function<void(int, std::string_view)>& error_line,
                                                   const std::function<bool()>& asked_to_end);

/// Threads that each of `ranks` processes may have on this machine: its cores divided, at least one.
[[nodiscard]] int threads_per_rank(int ranks);

/// Environment variable with the release of the `lowgear` that starts the programs of ranks.
inline constexpr const char* kLauncherReleaseVariable = "LOWGEAR_LAUNCHER_RELEASE";

/// For a program of ranks: throws InputError, which names both, where `lowgear` of another release has started it. They
/// exchange files and arguments whose format belongs to one release. `launcher` is the variable's value; empty:
/// torchrun, srun or mpirun started the program.
void require_release_of(const std::optional<std::string>& launcher);

}  // namespace lowgear::launcher

#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear {

/// How the ranks of this machine are started.
struct RankCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  int world_size = 1;
  int threads = 1;                                 ///< of each rank
  std::map<std::string, std::string> environment;  ///< beside this process' own
  /// After a rank has failed, or the job was told to end, the others get this long.
  std::chrono::seconds grace{10};
};

/// The rank that ended the job.
struct RankFailure {
  int rank = 0;
  int exit_code = -1;  ///< -1: a signal ended it
  std::string how;     ///< "was killed by signal 9 (SIGKILL)", "ended with 1"
  std::string why;     ///< the last line that it wrote to its standard error; may be empty
};

/// Runs all ranks as child processes until they have ended. Rank 0 has this process' standard output; lines that ranks
/// write to standard error go to `error_line` with their rank. When a rank fails, the others are ended; when
/// `asked_to_end` says so, all are asked to (SIGTERM), and killed if they take longer than the grace. No rank outlives
/// this process. Returns the first rank that failed, or nothing. Throws Error when a rank cannot be started.
[[nodiscard]] std::optional<RankFailure> run_ranks(const RankCommand& command,
                                                   const std::function<void(int, std::string_view)>& error_line,
                                                   const std::function<bool()>& asked_to_end);

/// Threads that each of `ranks` processes may have on this machine: its cores divided, at least one.
[[nodiscard]] int threads_per_rank(int ranks);

}  // namespace lowgear

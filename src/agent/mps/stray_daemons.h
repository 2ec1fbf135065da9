#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace lowgear::agent

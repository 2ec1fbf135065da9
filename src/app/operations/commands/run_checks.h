#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/terminal/console.h"

namespace lowgear::operations {

/// What an attached command needs of this machine. Empty members are not needed.
struct AttachedNeeds {
  std::string servers;  ///< addresses, as client::parse_server_addresses reads them
  bool agent = false;   ///< whose lease socket LOWGEAR_AGENT_SOCKET names
  std::filesystem::path recording;
};

/// Whatever is missing before the command starts: one line each, which says what follows and what to do. Asks the
/// servers for at most two seconds each, besides looking up their names, and changes nothing.
[[nodiscard]] std::vector<std::string> missing_needs(const AttachedNeeds& needs);

/// Warns where others may read the token for a server: in the file `named`, or else in that of
/// LOWGEAR_SERVER_TOKEN_FILE.
void warn_of_token(const std::filesystem::path& named, cli::Console& console);

/// Names and times of the recordings of ranks in a folder; they differ once a rank has recorded.
using Recordings = std::set<std::pair<std::string, std::filesystem::file_time_type>>;
[[nodiscard]] Recordings recordings_in(const std::filesystem::path& folder);

}  // namespace lowgear::operations

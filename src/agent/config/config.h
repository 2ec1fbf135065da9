#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config/agent_options.h"
#include "agent/service/access.h"
#include "base/core/files/user_database.h"

namespace lowgear::agent {

/// Where the agent looks for its configuration.
inline constexpr const char* kDefaultAgentConfig = "/etc/lowgear/agent.toml";

/// The agent's configuration, as deploy/agent.toml explains it.
struct Config {
  ProcessOptions process;
  std::filesystem::path journal = "/var/lib/lowgear";
  std::filesystem::path clock_log;  ///< folder for the clocks of each GPU with the times of the calls; empty: none
  /// UUIDs or PCI addresses of the GPUs that may be changed; `all` stands for every GPU. Closed by default: a GPU that
  /// is not named is only read.
  std::vector<std::string> gpus;
  bool all_gpus = false;
  std::vector<AllowRule> allow;
};

/// Reads a configuration. Throws InputError with file, line and column on a syntax error, an unknown key (naming the
/// nearest known one), a value of the wrong kind or out of range, and a user or group that does not exist.
[[nodiscard]] Config parse_agent_config(std::string_view text, const std::string& source, const NameLookup& lookup);

/// Reads the file. Throws InputError also when another user could have changed it (base/core/files/user_database.h).
[[nodiscard]] Config load_agent_config(const std::filesystem::path& path);

}  // namespace lowgear::agent

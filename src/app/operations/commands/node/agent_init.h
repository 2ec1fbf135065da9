#pragma once

#include <filesystem>
#include <string>

#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/console.h"

namespace lowgear::operations {

/// Arguments of `lowgear agent init`.
struct AgentInitRequest {
  std::filesystem::path config;  ///< file to write
  std::string group;             ///< empty: the calling user's primary group, under sudo that of its caller
  bool yes = false;              ///< write without asking
  bool replace = false;          ///< an existing file, which is kept with the ending `.old`
};

/// Shows a configuration for the GPUs of this machine, and writes it after a yes. Throws InputError where the file
/// exists and may not be replaced, this user may not write it, or no GPU can follow plans.
[[nodiscard]] cli::ExitCode run_agent_init(const AgentInitRequest& request, cli::Console& console);

}  // namespace lowgear::operations

#pragma once

#include <filesystem>

#include "app/cli/commands/verbs.h"

namespace lowgear::operations {

enum class StateAction : unsigned char { backup, final_backup, restore };
enum class StateEffect : unsigned char { carried_out, checked };  ///< checked: a dry run

/// What `lowgear serve backup` and `lowgear serve restore` do with a server's state.
struct StateRequest {
  StateAction action = StateAction::backup;
  StateEffect effect = StateEffect::carried_out;
  std::filesystem::path state;  ///< folder of the server
  std::filesystem::path file;   ///< the backup
};

/// Carries it out, or checks that it could be; prints what that is.
[[nodiscard]] cli::ExitCode run_state_request(const StateRequest& request, bool json, cli::Console& console);

}  // namespace lowgear::operations

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace lowgear::agent {

/// What a series of rounds with SIGKILLs came to. Each round runs the real agent and trainers on simulated GPUs, kills
/// one or all of them at a random moment, starts the agent again where it was killed, and looks at the GPUs.
struct KillRoundsResult {
  int rounds = 0;
  int trainers_killed = 0;
  int agents_killed = 0;
  int killed_while_changed = 0;       ///< rounds in which a GPU had other than default settings just before the kill
  int gpus_left_changed = 0;          ///< after the agent was back
  int journal_failures = 0;           ///< starts that the agent refused
  std::vector<std::string> failures;  ///< one line each
};

struct KillRoundsOptions {
  int rounds = 100;
  std::uint64_t seed = 1;
  std::filesystem::path agent_binary;       ///< `lowgear`
  std::filesystem::path nvml_library;       ///< the simulated libnvidia-ml.so.1
  std::filesystem::path folder;             ///< for the machine, sockets, journal and logs; short, as sockets demand
  std::function<void(int round)> progress;  ///< may be empty
};

/// Throws Error when the rounds cannot be run at all.
[[nodiscard]] KillRoundsResult run_kill_rounds(const KillRoundsOptions& options);

}  // namespace lowgear::agent

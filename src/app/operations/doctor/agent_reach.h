#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/core/environment.h"

namespace lowgear::operations::doctor {

/// Result of an attempt to connect to the agent's socket.
enum class AgentReach : unsigned char {
  answers,     ///< a program listens there
  absent,      ///< there is no such file
  not_socket,  ///< the path is not a socket
  refused,     ///< no program listens: an agent that was killed has left it
  forbidden,   ///< this user may not connect
  failed,      ///< anything else
};

/// Tries to connect to a Unix stream socket and hangs up at once.
[[nodiscard]] AgentReach reach_agent(const std::filesystem::path& socket);

/// Why no agent sets clocks, for people.
struct AgentProblem {
  std::string what;       ///< names the socket
  std::string next_step;  ///< what to do about it
};

/// Which GPUs the agent of a machine sets.
enum class AgentGpus : unsigned char { real, simulated };
/// Of an environment: simulated where it names a simulated machine.
[[nodiscard]] AgentGpus agent_gpus(const Environment& environment);

/// The lease socket of LOWGEAR_AGENT_SOCKET, or the one of an agent whose configuration names none.
[[nodiscard]] std::string agent_socket(const Environment& environment);

/// Of an agent that does not answer.
[[nodiscard]] AgentProblem problem_of(AgentReach reach, const std::string& socket, AgentGpus gpus);

/// Of the agent that the environment names; empty: it answers.
[[nodiscard]] std::optional<AgentProblem> agent_problem(const Environment& environment);

}  // namespace lowgear::operations::doctor

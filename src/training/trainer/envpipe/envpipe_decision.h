#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lowgear::trainer {

/// What the policy `envpipe` did about a step; known on rank 0.
struct EnvPipeDecision {
  enum class Phase : unsigned char { profiling, reconfiguring, settled };

  Phase phase = Phase::settled;  ///< that the step belonged to
  int path = 0;                  ///< units on the path of waiting
  int raised = 0;                ///< of which the clock rises with the next step
  std::string plan = {};         ///< as EnvPipe prints it; empty unless it was reconfiguring
  std::string problem = {};      ///< why nothing was decided; empty: it was
  std::string news = {};         ///< what people should know of it; may be empty
};

[[nodiscard]] constexpr std::string_view name(EnvPipeDecision::Phase phase) {
  constexpr std::string_view kNames[] = {"profiling", "reconfiguring", "settled"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace lowgear::trainer

#include "server/parts/server_event.h"

#include <array>
#include <cstddef>

namespace lowgear::server {

std::string_view name(ServerEvent event) {
  constexpr std::array<std::string_view, 11> kNames = {
      "decision",        "job_registered", "job_ended",    "job_lost",    "plans_refused",  "plans_followed",
      "budget_exceeded", "budget_kept",    "agent_silent", "agent_heard", "agent_forgotten"};
  return kNames[static_cast<std::size_t>(event)];
}

}  // namespace lowgear::server

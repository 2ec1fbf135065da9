#include "agent/service/agent_service.h"

namespace lowgear::agent {

std::string_view name(ClockState state) {
  switch (state) {
    case ClockState::untouched:
      return "untouched";
    case ClockState::leased:
      return "leased";
    case ClockState::restored:
      return "restored";
    case ClockState::foreign:
      return "foreign";
    case ClockState::failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace lowgear::agent

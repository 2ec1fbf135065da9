#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"
#include "control/client/server/server_messages.h"
#include "planning/plan/plan_json.h"

/// What a server hands out as a plan. One that is taken can be handed on to an agent.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const lowgear::OfferedPlan plan = lowgear::read_offered_plan(text, "server");
    if (lowgear::read_plan(plan.plan_json, "plan").ranks.empty()) std::abort();
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}

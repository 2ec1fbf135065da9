#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"
#include "planning/plan/plan_json.h"
#include "protocol/rank_plan.h"

/// What a server hands out as a plan. One that is taken can be handed on to an agent.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const lowgear::protocol::RankPlan plan = lowgear::protocol::read_rank_plan(text, "server");
    if (lowgear::plan::read_plan(plan.plan_json, "plan").ranks.empty()) std::abort();
    if (lowgear::protocol::read_rank_plan(lowgear::protocol::write_rank_plan(plan), "written") != plan) std::abort();
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}

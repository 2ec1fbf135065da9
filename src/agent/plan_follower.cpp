#include "agent/plan_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "core/error.h"
#include "plan/plan_json.h"

namespace lowgear {
namespace {

std::uint64_t key(std::uint8_t kind, std::uint64_t stage, std::uint64_t microbatch) {
  return kind | stage << 8U | microbatch << 32U;
}

/// The supported clock for one that a plan names.
int supported_clock(int clock_mhz, std::span<const int> supported_mhz, bool nearest_below, const PlannedOp& op) {
  // Highest first: the first that is not above is the nearest below.
  const auto found = std::ranges::find_if(supported_mhz, [&](int supported) { return supported <= clock_mhz; });
  const bool exact = found != supported_mhz.end() && *found == clock_mhz;
  if (exact || (nearest_below && found != supported_mhz.end())) return *found;
  throw InputError(fmt::format(
      "the plan runs {} {} of stage {} at {} MHz, which this GPU does not support{}", name(op.kind), op.microbatch,
      op.stage, clock_mhz,
      nearest_below ? ", nor any clock below it" : "; ask for the nearest clock below (LOWGEAR_PLAN_NEAREST_BELOW)"));
}

void require_allowed(int clock_mhz, const AllowedRange& allowed, const PlannedOp& op) {
  if (clock_mhz >= allowed.min_clock_mhz && clock_mhz <= allowed.max_clock_mhz) return;
  throw InputError(fmt::format("the plan runs {} {} of stage {} at {} MHz; this user may set {} to {} MHz",
                               name(op.kind), op.microbatch, op.stage, clock_mhz, allowed.min_clock_mhz,
                               allowed.max_clock_mhz));
}

}  // namespace

PlanFollower::PlanFollower(const PlanMessage& message, std::string_view gpu_name, std::span<const int> supported_mhz,
                           const AllowedRange& allowed) {
  const Plan plan = read_plan(message.plan_json, "plan");
  if (!plan.gpu_name.empty() && plan.gpu_name != gpu_name) {
    throw InputError(fmt::format("the plan is for {}, and this GPU is {}: plan from a profile of this model",
                                 quote(plan.gpu_name), quote(gpu_name)));
  }
  if (message.plan_rank >= plan.ranks.size()) {
    throw InputError(fmt::format("the plan has {} ranks and none of number {}", plan.ranks.size(), message.plan_rank));
  }
  for (const PlannedOp& op : plan.ranks[message.plan_rank]) {
    const int clock_mhz = supported_clock(op.clock_mhz, supported_mhz, message.nearest_below, op);
    require_allowed(clock_mhz, allowed, op);
    clocks_mhz_[key(static_cast<std::uint8_t>(op.kind), static_cast<std::uint64_t>(op.stage),
                    static_cast<std::uint64_t>(op.microbatch))] = clock_mhz;
  }
}

std::optional<int> PlanFollower::clock_mhz(const UnitEvent& event) {
  if (event.type != UnitEventType::unit_begin) return std::nullopt;
  const auto found = clocks_mhz_.find(key(event.kind, event.stage, event.microbatch));
  return found != clocks_mhz_.end() ? std::optional(found->second) : std::nullopt;
}

}  // namespace lowgear

#include "agent/lease/plan_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"

namespace lowgear::agent {
namespace {

std::uint64_t key(std::uint8_t kind, std::uint64_t stage, std::uint64_t microbatch) {
  return kind | stage << 8U | microbatch << 32U;
}

/// The supported clock for one that a plan names. `what` runs at it.
int supported_clock(int clock_mhz, std::span<const int> supported_mhz, bool nearest_below, std::string_view what) {
  // Highest first: the first that is not above is the nearest below.
  const auto found = std::ranges::find_if(supported_mhz, [&](int supported) { return supported <= clock_mhz; });
  const bool exact = found != supported_mhz.end() && *found == clock_mhz;
  if (exact || (nearest_below && found != supported_mhz.end())) return *found;
  throw InputError(fmt::format(
      "the plan runs {} at {} MHz, which this GPU does not support{}", what, clock_mhz,
      nearest_below ? ", nor any clock below it" : "; ask for the nearest clock below (LOWGEAR_PLAN_NEAREST_BELOW)"));
}

void require_allowed(int clock_mhz, const AllowedRange& allowed, std::string_view what) {
  if (clock_mhz >= allowed.min_clock_mhz && clock_mhz <= allowed.max_clock_mhz) return;
  throw InputError(fmt::format("the plan runs {} at {} MHz; this user may set {} to {} MHz", what, clock_mhz,
                               allowed.min_clock_mhz, allowed.max_clock_mhz));
}

/// The power limit that the op's setting names.
std::optional<int> allowed_limit_w(const plan::PlannedOp& op, const AllowedRange& allowed, std::string_view what) {
  const std::optional<int> limit_w = plan::power_limit_w(op.setting);
  if (!limit_w) return limit_w;
  if (!allowed.power) {
    throw InputError(fmt::format(
        "the plan runs {} at {} W; this user may not set power limits: its entry of allow would need power: true", what,
        *limit_w));
  }
  if (*limit_w >= allowed.min_power_w && *limit_w <= allowed.max_power_w) return limit_w;
  throw InputError(fmt::format("the plan runs {} at {} W; this user may set {} to {} W", what, *limit_w,
                               allowed.min_power_w, allowed.max_power_w));
}

std::string describe(const plan::PlannedOp& op) {
  return fmt::format("{} {} of stage {}", name(op.kind), op.microbatch, op.stage);
}

bool is_tried_in(const ipc::TrialIterations& trial, std::uint32_t iteration) {
  return iteration - trial.first_iteration < trial.iterations;  // modulo 2^32
}

}  // namespace

PlanFollower::PlanFollower(const ipc::PlanMessage& message, std::string_view gpu_name,
                           std::span<const int> supported_mhz, const AllowedRange& allowed) {
  const plan::Plan plan = plan::read_plan(message.plan_json, "plan");
  if (!plan.gpu_name.empty() && plan.gpu_name != gpu_name) {
    throw InputError(fmt::format("the plan is for {}, and this GPU is {}: plan from a profile of this model",
                                 quote(plan.gpu_name), quote(gpu_name)));
  }
  if (message.plan_rank >= plan.ranks.size()) {
    throw InputError(fmt::format("the plan has {} ranks and no rank {}", plan.ranks.size(), message.plan_rank));
  }
  const auto usable = [&](int clock_mhz, const std::string& what) {
    const int supported = supported_clock(clock_mhz, supported_mhz, message.nearest_below, what);
    require_allowed(supported, allowed, what);
    return supported;
  };
  lead_ns_ = std::llround(plan.clock_lead_s * 1e9);
  for (const plan::PlannedOp& op : plan.ranks[message.plan_rank]) {
    const std::string what = describe(op);
    units_[key(static_cast<std::uint8_t>(op.kind), static_cast<std::uint64_t>(op.stage),
               static_cast<std::uint64_t>(op.microbatch))] = {usable(op.clock_mhz, what),
                                                              allowed_limit_w(op, allowed, what)};
  }
  for (ipc::TrialIterations trial : message.trials) {
    const std::string what = fmt::format("iteration {}", trial.first_iteration);
    const int clock_mhz = trial.clock_mhz > INT32_MAX ? INT32_MAX : static_cast<int>(trial.clock_mhz);
    trial.clock_mhz = static_cast<std::uint32_t>(usable(clock_mhz, what));
    trials_.push_back(trial);
  }
}

std::optional<int> PlanFollower::trial_mhz(std::uint32_t iteration) const {
  const auto trial = std::ranges::find_if(trials_, [&](const auto& each) { return is_tried_in(each, iteration); });
  return trial != trials_.end() ? std::optional(static_cast<int>(trial->clock_mhz)) : std::nullopt;
}

std::optional<int> PlanFollower::clock_mhz(const ipc::UnitEvent& event, std::optional<std::uint32_t> iteration) const {
  const std::optional<int> tried_mhz = iteration ? trial_mhz(*iteration) : std::nullopt;
  if (event.type == ipc::UnitEventType::iteration_begin) return tried_mhz;
  if (event.type != ipc::UnitEventType::unit_begin) return std::nullopt;
  const auto found = units_.find(key(event.kind, event.stage, event.microbatch));
  if (found == units_.end()) return std::nullopt;
  return tried_mhz.value_or(found->second.clock_mhz);
}

std::optional<int> PlanFollower::power_limit_w(const ipc::UnitEvent& event) const {
  if (event.type != ipc::UnitEventType::unit_begin) return std::nullopt;
  const auto found = units_.find(key(event.kind, event.stage, event.microbatch));
  return found == units_.end() ? std::nullopt : found->second.power_limit_w;
}

}  // namespace lowgear::agent

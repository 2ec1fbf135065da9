#include "planning/plan/power_limit_setting.h"

#include <algorithm>

#include "base/core/numbers/number.h"

namespace lowgear::plan {

std::optional<int> power_limit_w(std::string_view setting) {
  constexpr std::string_view kPrefix = "pl:";
  constexpr long long kMostW = 10'000;
  if (!setting.starts_with(kPrefix)) return std::nullopt;
  const std::optional<long long> limit_w = parse_integer(setting.substr(kPrefix.size()));
  if (!limit_w || *limit_w < 1 || *limit_w > kMostW) return std::nullopt;
  return static_cast<int>(*limit_w);
}

void refuse_settings_but_power_limits(const Plan& plan, std::string_view who) {
  const bool settable = std::ranges::all_of(plan.ranks, [](const std::vector<PlannedOp>& ops) {
    return std::ranges::all_of(
        ops, [](const PlannedOp& op) { return op.setting.empty() || power_limit_w(op.setting).has_value(); });
  });
  if (!settable) refuse_settings(plan, who);
}

}  // namespace lowgear::plan

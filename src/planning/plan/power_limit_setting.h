#pragma once

#include <optional>
#include <string_view>

#include "planning/plan/plan.h"

namespace lowgear::plan {

/// The power limit that the setting `pl:300` names, in W from 1 to 10000; none for every other setting. The only
/// setting that Lowgear itself gives a meaning: its agent sets the limit with the clock of the op.
[[nodiscard]] std::optional<int> power_limit_w(std::string_view setting);

/// Throws InputError if the plan has settings that are no power limits, which `who` cannot set.
void refuse_settings_but_power_limits(const Plan& plan, std::string_view who);

}  // namespace lowgear::plan

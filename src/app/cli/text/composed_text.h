#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "planning/profile/compose/composed_profile.h"

namespace lowgear::cli {

/// What became of every (stage, kind, clock), as a table for people and as JSON.
[[nodiscard]] std::string composed_table(const profile::ComposedProfile& composed);
[[nodiscard]] Json composed_json(const profile::ComposedProfile& composed);

}  // namespace lowgear::cli

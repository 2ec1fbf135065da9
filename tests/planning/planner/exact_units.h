#pragma once

#include "base/core/units.h"

namespace lowgear::planner {

inline constexpr TimePs kSecond = 1'000'000'000'000;
inline constexpr PowerNw kWatt = 1'000'000'000;

}  // namespace lowgear::planner

#pragma once

#include "base/core/units.h"

namespace lowgear {

inline constexpr TimePs kSecond = 1'000'000'000'000;
inline constexpr PowerNw kWatt = 1'000'000'000;

}  // namespace lowgear

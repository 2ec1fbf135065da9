#pragma once

#include <functional>

namespace lowgear {

/// A monotonic clock, in seconds from an arbitrary start. Pure code, which has no clock, gets one as an argument if its
/// result includes computation times; with an empty one such figures are left out.
using SecondsClock = std::function<double()>;

}  // namespace lowgear

#pragma once

#include <functional>

namespace lowgear {

/// A clock that only runs forward, in seconds from any moment. Pure code, which has none of its own, is handed one
/// where its answer states how long work took; an empty one leaves such figures out.
using SecondsClock = std::function<double()>;

}  // namespace lowgear

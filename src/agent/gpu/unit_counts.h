#pragma once

#include <cstdint>

namespace lowgear::agent {

/// Unit starts, as read from rings.
struct UnitCounts {
  std::uint64_t late = 0;       ///< of all leases, that a newer one had overtaken when they were read
  std::uint64_t begun = 0;      ///< of the current lease, or of the last one
  std::uint64_t lost = 0;       ///< of the same, overwritten before they were read
  std::uint64_t unplanned = 0;  ///< that the plan which is followed does not name
};

}  // namespace lowgear::agent

#pragma once

#include <cstddef>
#include <cstdint>

namespace lowgear::planner {

/// An op, a stage or a clock by its number, as an index of a container.
[[nodiscard]] constexpr std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

}  // namespace lowgear::planner

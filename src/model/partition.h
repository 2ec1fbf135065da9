#pragma once

#include <cstdint>

namespace lowgear {

/// Layers [begin, end) of a model.
struct LayerRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

}  // namespace lowgear

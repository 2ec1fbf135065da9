#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"

// What fuzz targets share.

/// Aborts, which is a finding, unless it holds.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Reads something. That wrong input is refused is right; any other exception is a finding.
template <typename Read>
void ignore_input_error(Read read) {
  try {
    read();
  } catch (const lowgear::InputError&) {
    return;
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

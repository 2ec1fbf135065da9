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

/// Reads records; each is written and read back the same by itself, and can be replayed.
template <typename Read, typename Write, typename Replay>
void check_records(std::string_view text, Read read, Write write, Replay replay) {
  for (const auto& record : read(text, "record")) {
    const auto again = read(write(record), "written");
    require(again.size() == 1 && write(again.front()) == write(record));
    (void)replay(record);
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

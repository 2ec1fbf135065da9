#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace lowgear::simulator {

inline constexpr const char* kNoSharedData =
    "SKIPPED: the reference data in ../shared/data is not there, so nothing was compared with published numbers";

/// A file of the reference data beside the project; empty when it is not there.
inline std::optional<std::string> read_shared(const std::string& relative) {
  std::ifstream stream(std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data" / relative, std::ios::binary);
  if (!stream) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace lowgear::simulator

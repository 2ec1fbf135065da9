#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "estimating/estimator/costs/sample_files.h"

namespace lowgear::estimator {

inline constexpr const char* kNoSharedSamples =
    "NOT CHECKED against published samples: ../shared/data/operators is absent";

/// A file below the published samples beside the project; empty when it is not there.
inline std::optional<std::string> read_shared_samples(const std::string& relative) {
  std::ifstream stream(std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/operators" / relative);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

/// The sampling files of a folder below the published samples, by name; none when they are not there.
inline std::vector<SampleFile> shared_sample_files(const std::string& relative) {
  std::vector<SampleFile> files;
  std::error_code absent;
  const auto folder = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/operators" / relative;
  for (const auto& entry : std::filesystem::directory_iterator(folder, absent)) {
    const std::string name = entry.path().filename().string();
    if (const auto parts = parse_sample_file_name(name)) {
      files.push_back({name, *parts, *read_shared_samples(relative + "/" + name)});
    }
  }
  std::ranges::sort(files, {}, &SampleFile::source);
  return files;
}

}  // namespace lowgear::estimator

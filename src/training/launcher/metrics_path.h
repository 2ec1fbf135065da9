#pragma once

#include <filesystem>

namespace lowgear::launcher {

/// Whether `path` leads to a regular file that is the metrics' own: continuing from a checkpoint replaces it, and a new
/// training empties it. No file is one that a process has open and that is named through that (/dev/stdout, /dev/fd/3):
/// others write to it, too.
[[nodiscard]] bool is_own_metrics_file(const std::filesystem::path& path);

}  // namespace lowgear::launcher

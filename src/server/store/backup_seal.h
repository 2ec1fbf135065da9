#pragma once

#include <cstdint>
#include <filesystem>

namespace lowgear::server {

/// The digest of a backup stands at its end, where SQLite looks at nothing: a bit that has changed anywhere in the file
/// shows, also one that makes another value of a row.
enum class BackupSeal : unsigned char {
  missing,
  broken,  ///< the file is not as it was sealed
  whole,
};

/// Appends the digest to a file that has none, and flushes it. Throws Error when the disk refuses.
void seal_backup(const std::filesystem::path& file);
/// Reads all of the file. Throws InputError when it cannot be read.
[[nodiscard]] BackupSeal backup_seal(const std::filesystem::path& file);

}  // namespace lowgear::server

#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace lowgear {

/// Largest file that a reader accepts by default.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

/// The whole file. Throws InputError with the path and the system's reason when it is missing, unreadable, a directory,
/// or larger than `max_bytes`. `-` reads standard input.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::size_t max_bytes = kMaxFileBytes);

/// Writes the file whole or not at all: a temporary beside it, flushed to the disk, then renamed over it.
/// Throws InputError when the folder cannot be written to and Error on a full disk; the temporary is removed.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// A folder that is filled in a temporary place beside its target and appears there complete on `commit`, or not at
/// all: the destructor removes what was not committed.
class StagedDirectory {
 public:
  /// Throws InputError when `target` cannot be created, or exists and is neither empty nor, per `replaceable`,
  /// an earlier output (a folder that holds a file named `marker`).
  StagedDirectory(std::filesystem::path target, std::string marker);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  /// Writes one file below the folder; folders in between are made. Throws Error on a full disk.
  void write(const std::filesystem::path& relative, std::string_view content);
  /// Moves the filled folder to its target, replacing an earlier output of the same marker.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path staging_;
  std::string marker_;
  bool committed_ = false;
};

}  // namespace lowgear

#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear {

/// Files in memory, for a caller within the process that hands over texts and takes results without a folder on the
/// disk. While an object lives, `read_file`, `file_exists`, `files_in`, `write_file_atomically`, `check_writable` and
/// `StagedDirectory` find these names before the disk, in the thread that made the object. Other threads see the disk
/// alone.
class MemoryFiles {
 public:
  using Texts = std::map<std::string, std::string, std::less<>>;

  /// The files of `given` can be read by their names. An output whose name `kept` has, or that lies in a folder of such
  /// a name, is written here.
  MemoryFiles(Texts given, std::set<std::string, std::less<>> kept);
  ~MemoryFiles();
  MemoryFiles(const MemoryFiles&) = delete;
  MemoryFiles& operator=(const MemoryFiles&) = delete;

  /// The files of this thread; null without any.
  [[nodiscard]] static MemoryFiles* current();
  /// The text of a given file of this thread; null without one of this name.
  [[nodiscard]] static const std::string* given(const std::filesystem::path& path);
  /// Whether the path is or lies in a folder of given files of this thread: the disk has no part in such a folder.
  [[nodiscard]] static bool holds(const std::filesystem::path& path);
  /// The files of this thread, where they keep an output of this name; otherwise null.
  [[nodiscard]] static MemoryFiles* keeper_of(const std::filesystem::path& path);

  void write(const std::filesystem::path& path, std::string_view content);
  /// Outputs by name.
  [[nodiscard]] const Texts& written() const { return written_; }
  /// Paths of the given files in a folder.
  [[nodiscard]] std::vector<std::filesystem::path> given_in(const std::filesystem::path& folder) const;

 private:
  Texts given_;
  std::set<std::string, std::less<>> kept_;
  Texts written_;
  MemoryFiles* outer_;  ///< of this thread before
};

/// Whether there is a regular file of this name, in memory or on the disk.
[[nodiscard]] bool file_exists(const std::filesystem::path& path);

/// Regular files that lie in a folder itself, in memory or on the disk; empty where it cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

}  // namespace lowgear

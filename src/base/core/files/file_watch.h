#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lowgear {

/// Notices changed and replaced files without reading them: by device, inode, size and times of change. Also
/// notices changed symbolic links on the way.
class FileWatch {
 public:
  /// Remembers the files as they are now.
  explicit FileWatch(std::vector<std::filesystem::path> files);

  /// Call this about once a second. Returns true once for each change, as soon as the files are the same in two calls
  /// one after the other, so that no half-written file is read.
  [[nodiscard]] bool changed();

 private:
  /// All zero for a missing file.
  struct State {
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  [[nodiscard]] std::vector<State> look() const;

  std::vector<std::filesystem::path> files_;
  std::vector<State> reported_;
  std::vector<State> seen_;
};

}  // namespace lowgear

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lowgear {

/// Notices that files have changed or were replaced, without reading them: by device, inode, size and times of change,
/// also where a symbolic link on the way changes.
class FileWatch {
 public:
  /// Remembers the files as they are now.
  explicit FileWatch(std::vector<std::filesystem::path> files);

  /// To be called about once a second. True once for each change, when the files are as they were at the call before:
  /// what is still being written is not read half.
  [[nodiscard]] bool changed();

 private:
  /// All zero for a file that cannot be found.
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

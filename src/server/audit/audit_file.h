#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "base/core/files/file_descriptor.h"

namespace lowgear::server {

struct AuditFileOptions {
  std::filesystem::path path;
  std::size_t max_bytes = std::size_t{64} << 20U;  ///< of a file, before it becomes an older one
  int files = 8;                                   ///< that are kept, the present one included
};

/// A file of lines that is only appended to, with a limit: when it is full it becomes `PATH.1`, and older ones
/// `PATH.2` and so on. Another program may move it away (logrotate): the next line goes to a new file. Not thread-safe.
class AuditFile {
 public:
  /// Opens the file, which only its owner may read; makes it if it is not there. Throws InputError when it cannot, or
  /// others could have changed it.
  explicit AuditFile(AuditFileOptions options);

  /// Whether the constructor could open it; makes nothing. Throws InputError as that does.
  static void check(const std::filesystem::path& path);

  /// Writes whole lines, and returns when they are on disk. Throws Error when that fails; nothing of them is in the
  /// file then, as far as the disk allows that to be undone.
  void append(std::string_view lines);

 private:
  void open();
  void reopen_if_moved();
  void rotate();
  [[nodiscard]] std::filesystem::path older(int number) const;

  AuditFileOptions options_;
  FileDescriptor file_;
  std::size_t bytes_ = 0;
};

}  // namespace lowgear::server

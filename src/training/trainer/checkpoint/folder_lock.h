#pragma once

#include <filesystem>

#include "base/core/files/file_descriptor.h"

namespace lowgear::trainer {

/// Restricts a folder of checkpoints to one training: a lock on its file `lock`, which names the process that holds it,
/// or the last one that could write to the file. The lock ends with the object, and with the process however it ends.
/// Machines that share the folder see each other's locks if its file system supports them; without support there is no
/// protection.
class FolderLock {
 public:
  /// Throws InputError when another training has the folder, and when the file can be neither written nor read.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor file_;
};

}  // namespace lowgear::trainer

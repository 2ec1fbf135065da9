#pragma once

#include <filesystem>

#include "base/core/files/file_descriptor.h"

namespace lowgear::trainer {

/// Keeps a folder of checkpoints to one training: a lock on its file `lock`, which names the process that has it, or
/// the last one that could write to the file. Goes with the object, and with the process however that ends. Machines
/// that share the folder see each other's locks as far as its file system carries them; one that has no locks at all is
/// left to its ways.
class FolderLock {
 public:
  /// Throws InputError when another training has the folder, and when the file can be neither written nor read.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor file_;
};

}  // namespace lowgear::trainer

#pragma once

#include <string>
#include <string_view>

#include "base/core/files/file_descriptor.h"

namespace lowgear::ipc {

/// Result of an attempt to lock a file.
struct FileHold {
  enum class Outcome : unsigned char {
    held,
    taken,        ///< another process holds it
    unsupported,  ///< its file system has no locks
  };
  Outcome outcome = Outcome::held;
  std::string holder;  ///< taken: the text that the holding process has written; may be empty
};

/// Locks an open file (flock(2)) for as long as the descriptor is open, and writes the holder into it. On a full disk
/// the file is locked nevertheless, and left empty; a read-only file is locked and left unchanged.
[[nodiscard]] FileHold hold_file(const FileDescriptor& file, std::string_view holder);

}  // namespace lowgear::ipc

#pragma once

#include <string>
#include <string_view>

#include "base/core/files/file_descriptor.h"

namespace lowgear::ipc {

/// What came of the wish to hold a file.
struct FileHold {
  enum class Outcome : unsigned char {
    held,
    taken,        ///< another process holds it
    unsupported,  ///< its file system has no locks
  };
  Outcome outcome = Outcome::held;
  std::string holder;  ///< taken: what the process that holds it has written; empty when it has not, or could not
};

/// Holds an open file (flock(2)) for as long as the descriptor is open, and writes into it who does. On a full disk it
/// is held all the same, and left empty; one that is open for reading only is held, and left as it is.
[[nodiscard]] FileHold hold_file(const FileDescriptor& file, std::string_view holder);

}  // namespace lowgear::ipc

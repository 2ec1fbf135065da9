#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "base/core/files/file_descriptor.h"

namespace lowgear::ipc {

/// A Unix stream socket that listens at `path` with this mode and group, never open to more users than that. One on
/// no process listens on any more is replaced. Throws InputError when a process listens there, when something else than
/// a socket stands there, or when it cannot be made. The socket does not block.
[[nodiscard]] FileDescriptor listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group);

}  // namespace lowgear::ipc

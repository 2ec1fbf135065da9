#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/core/files/file_descriptor.h"

namespace lowgear::ipc {

/// Sends bytes over a Unix socket with an open file attached (SCM_RIGHTS); -1: none. Raises no SIGPIPE. Returns what
/// sendmsg(2) does with these flags.
[[nodiscard]] ssize_t send_with_descriptor(int socket, std::span<const std::byte> bytes, int descriptor, int flags = 0);

/// Receives bytes, and the file that came with them, if any. Returns what recvmsg(2) does.
[[nodiscard]] ssize_t receive_with_descriptor(int socket, std::span<std::byte> bytes, FileDescriptor& received);

}  // namespace lowgear::ipc

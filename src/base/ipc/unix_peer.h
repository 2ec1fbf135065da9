#pragma once

#include <sys/types.h>

namespace lowgear::ipc {

/// The peer of a Unix socket: the process that called connect(), as the kernel attests it (SO_PEERCRED).
struct UnixPeer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  ///< in the pid namespace of the process that asks; 0 when the peer is in one that it cannot see
};

/// Throws Error when the descriptor is no such socket.
[[nodiscard]] UnixPeer peer_of(int socket);

}  // namespace lowgear::ipc

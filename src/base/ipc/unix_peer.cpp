#include "base/ipc/unix_peer.h"

#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/core/error.h"

namespace lowgear::ipc {

UnixPeer peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    throw Error("the system does not say who is at the other end of a socket: " +
                std::generic_category().message(errno));
  }
  return {.uid = credentials.uid, .gid = credentials.gid, .pid = credentials.pid};
}

}  // namespace lowgear::ipc

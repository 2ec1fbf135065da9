#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "base/core/files/file_descriptor.h"

namespace lowgear::ipc {

/// Longest path of a Unix socket, in bytes: Linux has room for 108, one of which ends it (unix(7)).
inline constexpr std::size_t kMaxUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

/// Address of a Unix socket, for bind, connect and sendto.
class UnixAddress {
 public:
  /// A socket in the file system. Throws InputError naming the limit when the path does not fit.
  [[nodiscard]] static UnixAddress of_path(const std::filesystem::path& path);
  /// A socket in Linux' abstract namespace, which has a name of bytes and no file. Throws InputError as `of_path`.
  [[nodiscard]] static UnixAddress of_abstract_name(std::string_view name);

  [[nodiscard]] const sockaddr* get() const;
  [[nodiscard]] socklen_t size() const { return size_; }

 private:
  UnixAddress(std::string_view bytes, std::size_t offset);

  sockaddr_un address_{};
  socklen_t size_ = 0;
};

/// The peer of a Unix socket: the process that called connect(), as the kernel attests it (SO_PEERCRED).
struct UnixPeer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  ///< in the pid namespace of the process that asks; 0 when the peer is in one that it cannot see
};

/// Throws Error when the descriptor is no such socket.
[[nodiscard]] UnixPeer peer_of(int socket);

/// A Unix stream socket that listens at `path` with this mode and group, and is never open to more users. Makes its
/// folder, not those above it. Replaces a socket without a listening process. Throws InputError when a process listens
/// there, when the path is another file, or when the system refuses. The socket does not block.
[[nodiscard]] FileDescriptor listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group);

/// Sends bytes over a Unix socket with an open file attached (SCM_RIGHTS); -1: none. Raises no SIGPIPE. Returns as
/// sendmsg(2) with these flags.
[[nodiscard]] ssize_t send_with_descriptor(int socket, std::span<const std::byte> bytes, int descriptor, int flags = 0);

/// Receives bytes, and the file attached to them, if any. Returns as recvmsg(2).
[[nodiscard]] ssize_t receive_with_descriptor(int socket, std::span<std::byte> bytes, FileDescriptor& received);

}  // namespace lowgear::ipc

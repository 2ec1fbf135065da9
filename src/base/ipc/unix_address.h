#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace lowgear::ipc {

/// Longest path of a Unix socket, in bytes: Linux has room for 108, one of which ends it (unix(7)).
inline constexpr std::size_t kMaxUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

/// Where a Unix socket is, as bind, connect and sendto take it.
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

}  // namespace lowgear::ipc

#include "base/ipc/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/core/error.h"
#include "base/ipc/unix_address.h"

namespace lowgear::ipc {
namespace {

[[noreturn]] void throw_socket_error(const std::filesystem::path& path, const std::string& what) {
  throw InputError(path.string() + ": no socket can be made there: " + what);
}

[[noreturn]] void throw_system_error(const std::filesystem::path& path) {
  throw_socket_error(path, std::generic_category().message(errno));
}

FileDescriptor new_socket(const std::filesystem::path& path) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_system_error(path);
  return socket;
}

/// Removes a socket that no process listens on.
void remove_stale(const std::filesystem::path& path, const UnixAddress& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return;
    throw_system_error(path);
  }
  if (!S_ISSOCK(found.st_mode)) throw_socket_error(path, "a file that is not a socket exists there; move it away");
  const FileDescriptor probe = new_socket(path);
  const int result = ::connect(probe.get(), address.get(), address.size());
  if (result == 0 || errno != ECONNREFUSED) {
    throw_socket_error(path, "another process listens there already; stop it, or configure another path");
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_system_error(path);
}

}  // namespace

FileDescriptor listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group) {
  constexpr auto kSameUser = static_cast<uid_t>(-1);
  const UnixAddress address = UnixAddress::of_path(path);
  remove_stale(path, address);
  FileDescriptor socket = new_socket(path);
  // The mode that a socket has before it is bound is what it gets in the file system: closed until it is all set up.
  if (::fchmod(socket.get(), 0) != 0) throw_system_error(path);
  if (::bind(socket.get(), address.get(), address.size()) != 0) {
    if (errno == ENOENT) throw_socket_error(path, "the folder does not exist; mkdir -p " + path.parent_path().string());
    throw_system_error(path);
  }
  if (group && ::chown(path.c_str(), kSameUser, *group) != 0) throw_system_error(path);
  if (::chmod(path.c_str(), mode) != 0) throw_system_error(path);
  if (::listen(socket.get(), SOMAXCONN) != 0) throw_system_error(path);
  return socket;
}

}  // namespace lowgear::ipc

#include "base/ipc/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "base/core/error.h"

namespace lowgear::ipc {

namespace {

void require_length(std::string_view name) {
  if (!name.empty() && name.size() <= kMaxUnixPathBytes) return;
  throw InputError(printable(name) + ": a path of " + std::to_string(name.size()) +
                   " bytes does not fit a socket; give one of 1 to " + std::to_string(kMaxUnixPathBytes));
}

}  // namespace

UnixAddress::UnixAddress(std::string_view bytes, std::size_t offset)
    : size_(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + offset + bytes.size())) {
  address_.sun_family = AF_UNIX;
  std::ranges::copy(bytes, address_.sun_path + offset);
}

UnixAddress UnixAddress::of_path(const std::filesystem::path& path) {
  const std::string& text = path.native();
  require_length(text);
  // It would end the path, or at its begin make the socket an abstract one.
  if (text.find('\0') != std::string::npos) {
    throw InputError(printable(text) + ": a path with a zero byte does not name a socket; remove the byte");
  }
  return {std::string_view(text.c_str(), text.size() + 1), 0};
}

UnixAddress UnixAddress::of_abstract_name(std::string_view name) {
  require_length(name);
  return {name, 1};  // after a zero byte, which distinguishes it from a path
}

const sockaddr* UnixAddress::get() const { return reinterpret_cast<const sockaddr*>(&address_); }

UnixPeer peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    throw Error("the system does not say who is at the other end of a socket: " +
                std::generic_category().message(errno));
  }
  return {.uid = credentials.uid, .gid = credentials.gid, .pid = credentials.pid};
}

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

/// The socket's folder, where only that is missing, for everybody to look into: /run is empty after each start of the
/// system. What is wrong with it otherwise, bind() says.
void make_folder_of(const std::filesystem::path& path) {
  constexpr mode_t kMode = 0755;
  const std::filesystem::path folder = path.parent_path();
  if (::mkdir(folder.c_str(), kMode) == 0) ::chmod(folder.c_str(), kMode);  // whatever the umask is
}

}  // namespace

FileDescriptor listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group) {
  constexpr auto kSameUser = static_cast<uid_t>(-1);
  const UnixAddress address = UnixAddress::of_path(path);
  make_folder_of(path);
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

namespace {

/// A message of some bytes, with room for one descriptor.
struct DescriptorMessage {
  DescriptorMessage(void* bytes, std::size_t size) : data{.iov_base = bytes, .iov_len = size} {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }

  iovec data;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

}  // namespace

ssize_t send_with_descriptor(int socket, std::span<const std::byte> bytes, int descriptor, int flags) {
  DescriptorMessage message(const_cast<std::byte*>(bytes.data()), bytes.size());
  if (descriptor >= 0) {
    cmsghdr* part = CMSG_FIRSTHDR(&message.header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  } else {
    message.header.msg_control = nullptr;
    message.header.msg_controllen = 0;
  }
  return ::sendmsg(socket, &message.header, MSG_NOSIGNAL | flags);
}

ssize_t receive_with_descriptor(int socket, std::span<std::byte> bytes, FileDescriptor& received) {
  DescriptorMessage message(bytes.data(), bytes.size());
  const ssize_t count = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  if (count < 0) return count;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message.header); part != nullptr; part = CMSG_NXTHDR(&message.header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
    received = FileDescriptor(descriptor);
  }
  return count;
}

}  // namespace lowgear::ipc

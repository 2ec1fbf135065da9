#include "base/ipc/descriptor_passing.h"

#include <sys/socket.h>

#include <array>
#include <cstring>

namespace lowgear::ipc {
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

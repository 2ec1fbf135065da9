#include "base/ipc/unix_peer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"

namespace lowgear::ipc {
namespace {

TEST(PeerOf, IsTheProcessThatConnected) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor first(ends[0]);
  const FileDescriptor second(ends[1]);
  const UnixPeer peer = peer_of(first.get());
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_EQ(peer.uid, ::getuid());
  EXPECT_EQ(peer.gid, ::getgid());
}

TEST(PeerOf, RefusesWhatIsNoSocket) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const FileDescriptor first(ends[0]);
  const FileDescriptor second(ends[1]);
  EXPECT_THROW((void)peer_of(first.get()), Error);
}

}  // namespace
}  // namespace lowgear::ipc

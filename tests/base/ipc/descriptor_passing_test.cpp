#include "base/ipc/descriptor_passing.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace lowgear::ipc {
namespace {

class DescriptorPassing : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    here = FileDescriptor(ends[0]);
    there = FileDescriptor(ends[1]);
  }

  /// What is received, with the file that came with it.
  std::string receive() {
    std::array<std::byte, 64> bytes{};
    const ssize_t count = receive_with_descriptor(there.get(), bytes, received);
    return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }

  static std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

  FileDescriptor here;
  FileDescriptor there;
  FileDescriptor received;
};

TEST_F(DescriptorPassing, SendsAnOpenFileWithTheBytes) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const FileDescriptor read_end(pipe[0]);
  FileDescriptor write_end(pipe[1]);
  EXPECT_EQ(send_with_descriptor(here.get(), bytes_of("lease"), write_end.get()), 5);
  write_end = FileDescriptor();
  EXPECT_EQ(receive(), "lease");
  ASSERT_EQ(::write(received.get(), "x", 1), 1);
  char read = 0;
  ASSERT_EQ(::read(read_end.get(), &read, 1), 1);
  EXPECT_EQ(read, 'x');
}

TEST_F(DescriptorPassing, SendsBytesAlone) {
  EXPECT_EQ(send_with_descriptor(here.get(), bytes_of("no"), -1), 2);
  EXPECT_EQ(receive(), "no");
  EXPECT_LT(received.get(), 0);
}

TEST_F(DescriptorPassing, FailsWithoutASignalWhenThePeerIsGone) {
  there = FileDescriptor();
  EXPECT_LT(send_with_descriptor(here.get(), bytes_of("x"), -1), 0);
}

}  // namespace
}  // namespace lowgear::ipc

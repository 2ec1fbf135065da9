#include "base/ipc/unix_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/temporary_folder.h"

namespace lowgear::ipc {

namespace {

using testing::AllOf;
using testing::HasSubstr;

FileDescriptor listen_at(const UnixAddress& address) {
  FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(listener.get(), address.get(), address.size()), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  return listener;
}

bool is_listened_at(const UnixAddress& address) {
  const FileDescriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(client.get(), address.get(), address.size()) == 0;
}

/// A path of this length within the folder, which may be long itself.
std::filesystem::path path_of_length(const std::filesystem::path& folder, std::size_t bytes) {
  const std::string start = folder.string() + "/";
  return start + std::string(bytes - start.size(), 's');
}

TEST(UnixAddress, IsTheSocketOfThatPath) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "socket";
  const FileDescriptor listener = listen_at(UnixAddress::of_path(path));
  EXPECT_TRUE(std::filesystem::is_socket(path));
  EXPECT_TRUE(is_listened_at(UnixAddress::of_path(path)));
  EXPECT_FALSE(is_listened_at(UnixAddress::of_path(folder / "socke")));
}

TEST(UnixAddress, TakesThePathThatJustFits) {
  const TemporaryFolder folder;
  const std::filesystem::path path = path_of_length(folder.path(), kMaxUnixPathBytes);
  const FileDescriptor listener = listen_at(UnixAddress::of_path(path));
  EXPECT_TRUE(std::filesystem::is_socket(path));
  EXPECT_TRUE(is_listened_at(UnixAddress::of_path(path)));
}

TEST(UnixAddress, RefusesPathsThatDoNotFitAndSaysTheLimit) {
  const auto refusal = [](const std::string& path) { return error_of([&] { (void)UnixAddress::of_path(path); }); };
  EXPECT_THAT(refusal(std::string(kMaxUnixPathBytes + 1, 'x')), AllOf(HasSubstr("108 bytes"), HasSubstr("1 to 107")));
  EXPECT_THAT(refusal(""), HasSubstr("1 to 107"));
  EXPECT_THAT(refusal(std::string("/run/a\0b", 8)), AllOf(HasSubstr("\\x00"), HasSubstr("zero byte")));
  EXPECT_THAT(refusal("/run/\n" + std::string(200, 'x')), HasSubstr("\\x0a"));
}

TEST(UnixAddress, ReachesAbstractSockets) {
  const std::string name = "lowgear-unix-address-test-" + std::to_string(::getpid());
  const FileDescriptor listener = listen_at(UnixAddress::of_abstract_name(name));
  EXPECT_TRUE(is_listened_at(UnixAddress::of_abstract_name(name)));
  EXPECT_FALSE(is_listened_at(UnixAddress::of_abstract_name(name + "x")));
  EXPECT_FALSE(std::filesystem::exists(name));
}

TEST(UnixAddress, RefusesAbstractNamesThatDoNotFit) {
  EXPECT_NO_THROW((void)UnixAddress::of_abstract_name(std::string(kMaxUnixPathBytes, 'x')));
  EXPECT_THROW((void)UnixAddress::of_abstract_name(std::string(kMaxUnixPathBytes + 1, 'x')), InputError);
  EXPECT_THROW((void)UnixAddress::of_abstract_name(""), InputError);
}

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

class UnixListener : public ::testing::Test {
 protected:
  UnixListener() {
    std::string name = ::testing::TempDir() + "lowgear_listener_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~UnixListener() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(UnixListener, HasTheModeAskedForWhateverTheUmask) {
  const auto path = folder_ / "socket";
  const mode_t before = ::umask(0);
  const FileDescriptor socket = listen_unix(path, 0640, std::nullopt);
  ::umask(before);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0640U);
}

TEST_F(UnixListener, ReplacesASocketOnWhichNobodyListens) {
  const auto path = folder_ / "socket";
  listen_unix(path, 0600, std::nullopt).reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(listen_unix(path, 0600, std::nullopt));
}

TEST_F(UnixListener, LeavesASocketOnWhichAProcessListens) {
  const auto path = folder_ / "socket";
  const FileDescriptor first = listen_unix(path, 0600, std::nullopt);
  EXPECT_THROW((void)listen_unix(path, 0600, std::nullopt), InputError);
}

TEST_F(UnixListener, LeavesAFileThatIsNoSocket) {
  const auto path = folder_ / "socket";
  std::ofstream(path) << "precious";
  EXPECT_THROW((void)listen_unix(path, 0600, std::nullopt), InputError);
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

TEST_F(UnixListener, FollowsNoSymbolicLink) {
  std::ofstream(folder_ / "precious") << "precious";
  std::filesystem::create_symlink(folder_ / "precious", folder_ / "socket");
  EXPECT_THROW((void)listen_unix(folder_ / "socket", 0600, std::nullopt), InputError);
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ / "precious"));
}

TEST_F(UnixListener, RefusesPathsThatCannotBe) {
  EXPECT_THROW((void)listen_unix(folder_ / std::string(200, 'x'), 0600, std::nullopt), InputError);
  EXPECT_THROW((void)listen_unix("", 0600, std::nullopt), InputError);
  EXPECT_THAT(error_of([&] { (void)listen_unix(folder_ / "missing" / "too" / "socket", 0600, std::nullopt); }),
              testing::HasSubstr("mkdir -p " + (folder_ / "missing" / "too").string()));
}

TEST_F(UnixListener, MakesItsFolderForEverybodyToLookInto) {
  const mode_t before = ::umask(077);
  const FileDescriptor socket = listen_unix(folder_ / "new" / "socket", 0600, std::nullopt);
  ::umask(before);
  struct stat found {};
  ASSERT_EQ(::stat((folder_ / "new").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0755U);
}

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

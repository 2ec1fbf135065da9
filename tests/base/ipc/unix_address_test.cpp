#include "base/ipc/unix_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
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

}  // namespace
}  // namespace lowgear::ipc

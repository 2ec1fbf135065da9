#include "base/ipc/unix_listener.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "base/core/error.h"

namespace lowgear::ipc {
namespace {

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
  try {
    (void)listen_unix(folder_ / "missing" / "socket", 0600, std::nullopt);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("mkdir -p " + (folder_ / "missing").string()), std::string::npos);
  }
}

}  // namespace
}  // namespace lowgear::ipc

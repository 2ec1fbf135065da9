#include "server/store/state_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "base/core/error_of.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 0777U;
}

std::string refusal(const fs::path& path) {
  return error_of([&] { const StateFolder folder(path); });
}

TEST(StateFolder, IsMadeForItsOwnerAlone) {
  const TemporaryFolder parent;
  const StateFolder folder(parent / "state");
  EXPECT_EQ(mode_of(parent / "state"), 0700U);
  EXPECT_EQ(mode_of(folder.database()), 0600U);
  EXPECT_EQ(mode_of(parent / "state" / "lock"), 0600U);
}

TEST(StateFolder, RefusesASecondServerAndNamesTheFirst) {
  const TemporaryFolder parent;
  std::optional<StateFolder> first(parent / "state");
  EXPECT_THAT(refusal(parent / "state"), HasSubstr("the server of process " + std::to_string(::getpid())));
  first.reset();
  EXPECT_EQ(refusal(parent / "state"), "no error");
}

TEST(StateFolder, RefusesWhatOthersCouldChange) {
  const TemporaryFolder parent;
  const fs::path path = parent / "state";
  fs::create_directory(path);
  ASSERT_EQ(::chmod(path.c_str(), 0770), 0);
  EXPECT_THAT(refusal(path), HasSubstr("chmod go-w"));
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  fs::create_symlink("/dev/null", path / "server.db");
  EXPECT_THAT(refusal(path), HasSubstr("server.db"));
}

TEST(StateFolder, SaysWhatCannotBeMade) {
  const TemporaryFolder parent;
  EXPECT_THAT(refusal(parent / "missing" / "state"), HasSubstr("No such file"));
}

}  // namespace
}  // namespace lowgear::server

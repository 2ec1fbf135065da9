#include "base/core/files/user_database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TrustedPathTest : public testing::Test {
 protected:
  TrustedPathTest() : file_(folder_ / "agent.yaml"), inner_(folder_ / "journal") {
    write_file_atomically(file_, "text");
    fs::create_directory(inner_);
    EXPECT_EQ(::chmod(file_.c_str(), 0644), 0);
    EXPECT_EQ(::chmod(inner_.c_str(), 0755), 0);
  }

  static std::string file_refusal(const fs::path& path) {
    return error_of([&] { require_trusted_file(path); });
  }
  static std::string folder_refusal(const fs::path& path) {
    return error_of([&] { require_trusted_folder(path); });
  }

  TemporaryFolder folder_;
  fs::path file_;
  fs::path inner_;
};

TEST_F(TrustedPathTest, TakesWhatOnlyItsOwnerMayWriteTo) {
  EXPECT_NO_THROW(require_trusted_file(file_));
  EXPECT_NO_THROW(require_trusted_folder(inner_));
}

TEST_F(TrustedPathTest, ChecksAFileTogetherWithItsFolder) {
  EXPECT_EQ(require_trusted(folder_ / "journal" / ".." / "agent.yaml"), file_);
  const fs::path within = inner_ / "agent.yaml";
  write_file_atomically(within, "text");
  ASSERT_EQ(::chmod(inner_.c_str(), 0777), 0);
  EXPECT_THAT(error_of([&] { (void)require_trusted(within); }), HasSubstr("chmod go-w " + inner_.string()));
}

TEST_F(TrustedPathTest, NamesAMissingFileAndNotItsFolder) {
  const auto refusal = [](const fs::path& path) { return error_of([&] { (void)require_trusted(path); }); };
  const fs::path missing = folder_ / "none" / "agent.yaml";
  EXPECT_THAT(refusal(missing), HasSubstr(missing.string() + ": No such file or directory"));
  ASSERT_EQ(::chmod(inner_.c_str(), 0777), 0);
  EXPECT_THAT(refusal(inner_ / "agent.yaml"), HasSubstr("agent.yaml: No such file or directory"));
}

TEST_F(TrustedPathTest, RefusesASymbolicLink) {
  fs::create_symlink(file_, folder_ / "link");
  fs::create_directory_symlink(inner_, folder_ / "link_to_folder");
  fs::create_symlink(folder_ / "nowhere", folder_ / "dangling");
  EXPECT_THAT(file_refusal(folder_ / "link"), AllOf(HasSubstr("symbolic link"), HasSubstr("name the file itself")));
  EXPECT_THAT(folder_refusal(folder_ / "link_to_folder"), HasSubstr("name the folder itself"));
  EXPECT_THAT(file_refusal(folder_ / "dangling"), HasSubstr("symbolic link"));
}

TEST_F(TrustedPathTest, RefusesWhatOthersMayWriteTo) {
  for (const mode_t mode : {0664, 0646, 0666}) {
    ASSERT_EQ(::chmod(file_.c_str(), mode), 0);
    EXPECT_THAT(file_refusal(file_), HasSubstr("chmod go-w " + file_.string()));
  }
  // A sticky folder keeps others from removing the agent's files, but not from adding their own.
  for (const mode_t mode : {0775, 0757, 01777}) {
    ASSERT_EQ(::chmod(inner_.c_str(), mode), 0);
    EXPECT_THAT(folder_refusal(inner_), HasSubstr("chmod go-w " + inner_.string()));
  }
}

TEST_F(TrustedPathTest, RefusesWhatBelongsToAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kOtherUid = 4242;
  ASSERT_EQ(::chown(file_.c_str(), kOtherUid, 0), 0);
  ASSERT_EQ(::chown(inner_.c_str(), kOtherUid, 0), 0);
  EXPECT_THAT(file_refusal(file_), AllOf(HasSubstr("belongs to user 4242"), HasSubstr("chown root")));
  EXPECT_THAT(folder_refusal(inner_), HasSubstr("belongs to user 4242"));
}

TEST_F(TrustedPathTest, RefusesWhatIsNoneOrNotThere) {
  EXPECT_THAT(file_refusal(inner_), HasSubstr("not a file"));
  EXPECT_THAT(folder_refusal(file_), HasSubstr("not a folder"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(file_refusal(folder_ / "pipe"), HasSubstr("not a file"));
  EXPECT_THAT(file_refusal(folder_ / "missing"), HasSubstr("No such file or directory; check the path"));
}

}  // namespace
}  // namespace lowgear

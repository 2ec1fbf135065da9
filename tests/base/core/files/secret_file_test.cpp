#include "base/core/files/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(SecretFile, IsReadWhenOnlyItsOwnerMay) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "secret";
  write_file_atomically(file, "SECRET");
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  EXPECT_EQ(read_secret_file(file, 100), "SECRET");
  EXPECT_THAT(error_of([&] { (void)read_secret_file(file, 3); }), Not(HasSubstr("SECRET")));
  for (const mode_t mode : {0640U, 0604U, 0620U}) {
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    EXPECT_THAT(error_of([&] { (void)read_secret_file(file, 100); }),
                AllOf(HasSubstr("chmod"), Not(HasSubstr("SECRET"))));
  }
  EXPECT_THAT(error_of([&] { (void)read_secret_file(folder / "none", 100); }), HasSubstr("none"));
}

}  // namespace
}  // namespace lowgear

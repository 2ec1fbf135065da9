#include "base/core/files/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <string_view>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::filesystem::path& path) {
  return error_of([&] { const MappedFile file(path); });
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, HasTheBytesOfTheFile) {
  const TemporaryFolder folder;
  const std::string content(100000, 'c');
  write_file_atomically(folder / "f", content);
  const MappedFile file(folder / "f");
  EXPECT_EQ(text_of(file), content);
  // Replacing the file does not change what is mapped.
  write_file_atomically(folder / "f", "other");
  EXPECT_EQ(text_of(file), content);
}

TEST(MappedFile, MayBeEmpty) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "f", "");
  EXPECT_TRUE(MappedFile(folder / "f").bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder / "none"), HasSubstr("none: cannot be read: No such file or directory; check the path"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("cannot be read: it is not a regular file; name a file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("it is not a regular file"));
  // Without waiting for someone to write into it.
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder / "fifo"), HasSubstr("it is not a regular file"));
}

}  // namespace
}  // namespace lowgear

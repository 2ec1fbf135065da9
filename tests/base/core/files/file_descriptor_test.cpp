
#include "base/core/files/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

TEST(WriteAll, WritesWhereTheFileIsAt) {
  const TemporaryFolder folder;
  const FileDescriptor file(::open((folder / "f").c_str(), O_WRONLY | O_CREAT, 0600));
  EXPECT_EQ(write_all(file.get(), ""), 0);
  EXPECT_EQ(write_all(file.get(), "a"), 0);
  EXPECT_EQ(write_all(file.get(), std::string(1'000'000, 'b')), 0);
  EXPECT_EQ(read_file(folder / "f"), "a" + std::string(1'000'000, 'b'));
}

TEST(WriteAll, ReturnsWhyItFailed) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY));
  EXPECT_EQ(write_all(full.get(), "x"), ENOSPC);
  EXPECT_EQ(write_all(-1, "x"), EBADF);
}

}  // namespace
}  // namespace lowgear

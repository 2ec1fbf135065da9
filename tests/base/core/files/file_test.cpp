#include "base/core/files/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/folder_manifest.h"
#include "base/core/files/temporary_name.h"
#include "base/core/limited_process.h"
#include "base/core/temporary_folder.h"

namespace lowgear {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  fs::path make_file(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  TemporaryFolder folder_;
};

TEST_F(FileTest, ReadsAllBytes) {
  const std::string content = std::string("a\0b\r\n", 5) + std::string(200000, 'x');
  EXPECT_EQ(read_file(make_file("f", content)), content);
  EXPECT_EQ(read_file(make_file("empty", "")), "");
}

TEST_F(FileTest, ReadsUpToItsBound) {
  const fs::path file = make_file("f", "12345");
  EXPECT_EQ(read_file(file, 5), "12345");
  EXPECT_EQ(error_of([&] { (void)read_file(file, 4); }),
            file.string() + ": cannot be read: it is larger than 4 bytes; check that it is the right file");
}

TEST_F(FileTest, TellsWhyAFileCannotBeRead) {
  const fs::path missing = folder_ / "missing.csv";
  EXPECT_EQ(error_of([&] { (void)read_file(missing); }),
            missing.string() + ": cannot be read: No such file or directory; check the path");
  EXPECT_EQ(error_of([&] { (void)read_file(folder_.path()); }),
            folder_.path().string() + ": cannot be read: it is a folder; name a file");
  EXPECT_THAT(error_of([&] { (void)read_file(make_file("f", "x") / "below"); }), HasSubstr("Not a directory"));
  EXPECT_THAT(error_of([] { (void)read_file(""); }), HasSubstr("cannot be read"));
}

TEST_F(FileTest, TellsWhenReadingFails) {
  EXPECT_EQ(error_of([] { (void)read_file("/proc/self/mem"); }), "/proc/self/mem: cannot be read: Input/output error");
}

TEST_F(FileTest, RefusesAFileWithoutPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const fs::path file = make_file("f", "x");
  fs::permissions(file, fs::perms::none);
  EXPECT_THAT(error_of([&] { (void)read_file(file); }), HasSubstr("Permission denied"));
}

TEST_F(FileTest, ReadsAFifoToItsEnd) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string content(300000, 'y');
  std::thread writer([&] { std::ofstream(fifo, std::ios::binary) << content; });
  EXPECT_EQ(read_file(fifo), content);
  writer.join();
}

TEST_F(FileTest, RefusesADeviceThatIsNoFile) {
  for (const std::string device : {"/dev/zero", "/dev/urandom", "/dev/full"}) {
    EXPECT_EQ(error_of([&] { (void)read_file(device); }), device + ": cannot be read: it is a device; name a file");
  }
  EXPECT_EQ(read_file("/dev/null"), "");
}

TEST_F(FileTest, StopsReadingAFifoWithoutEndAtTheBound) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string part(1 << 16, '\0');
  std::size_t written = 0;
  std::thread writer([&] {
    std::signal(SIGPIPE, SIG_IGN);
    for (std::ofstream out(fifo, std::ios::binary); out.write(part.data(), std::streamsize(part.size()));) {
      written += part.size();
    }
  });
  EXPECT_EQ(error_of([&] { (void)read_file(fifo); }),
            fifo.string() + ": cannot be read: it is larger than 64 MiB; check that it is the right file");
  writer.join();
  EXPECT_LT(written, kMaxDocumentBytes + (1U << 22)) << "no more is read than needed to know";
}

TEST_F(FileTest, RefusesALargeFileBeforeReadingIt) {
  const fs::path file = make_file("f", "x");
  fs::resize_file(file, std::uintmax_t{1} << 36);  // a hole: it takes no room
  EXPECT_THAT(error_of([&] { (void)read_file(file); }), HasSubstr("it is larger than 64 MiB"));
  EXPECT_THAT(error_of([&] { (void)read_file(file, kMaxFileBytes); }), HasSubstr("larger than 1024 MiB"));
}

TEST_F(FileTest, ReadsStandardInput) {
  const fs::path file = make_file("f", "from outside");
  const int saved = ::dup(STDIN_FILENO);
  const int input = ::open(file.c_str(), O_RDONLY);
  ASSERT_GE(::dup2(input, STDIN_FILENO), 0);
  ::close(input);
  const std::string content = read_file("-");
  const std::string error = error_of([] {
    ::lseek(STDIN_FILENO, 0, SEEK_SET);
    (void)read_file("-", 3);
  });
  if (saved >= 0) {
    ::dup2(saved, STDIN_FILENO);
    ::close(saved);
  }
  EXPECT_EQ(content, "from outside");
  EXPECT_EQ(error, "<stdin>: cannot be read: it is larger than 3 bytes; check that it is the right file");
}

TEST_F(FileTest, WritesAFileAndNothingElse) {
  const std::string content = std::string("a\0b\n", 4) + std::string(3000000, 'z');
  write_file_atomically(folder_ / "out.json", content);
  EXPECT_EQ(read_file(folder_ / "out.json"), content);
  EXPECT_THAT(folder_.names(), ElementsAre("out.json"));
}

TEST_F(FileTest, ReplacesAFile) {
  make_file("out.json", "before");
  write_file_atomically(folder_ / "out.json", "after");
  EXPECT_EQ(read_file(folder_ / "out.json"), "after");
  EXPECT_THAT(folder_.names(), ElementsAre("out.json"));
}

TEST_F(FileTest, WritesFilesWithTheUsualPermissions) {
  const mode_t mask = ::umask(022);
  write_file_atomically(folder_ / "out.json", "x");
  ::umask(mask);
  EXPECT_EQ(fs::status(folder_ / "out.json").permissions(), static_cast<fs::perms>(0644));
}

TEST_F(FileTest, RemovesLeftoversOfKilledProcessesOnly) {
  const StagedFile of_this_process(folder_ / "other.json");
  const std::string own = folder_.names().front();
  make_file(".lowgear-0123456789abcdef-1999999999-0.tmp", "of another machine, whose processes are not known here");
  const pid_t child = ::fork();
  if (child == 0) {
    StagedFile file(folder_ / "out.json");
    file.write("half");
    StagedDirectory folder(folder_ / "out", "plan.json");
    folder.write("plans/plan.json", "{}");
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(folder_.names().size(), 7U) << "a file, and a folder with its mark, a folder and a file";
  write_file_atomically(folder_ / "out.json", "x");
  EXPECT_EQ(folder_.names().size(), 8U) << "this process has looked into the folder";
  remove_leftovers(folder_.path());
  EXPECT_THAT(folder_.names(), UnorderedElementsAre(own, ".lowgear-0123456789abcdef-1999999999-0.tmp", "out.json"));
}

/// A temporary name of a process that has ended, with another middle than `PID-0` where one is given.
std::string name_of_ended_process(const std::string& after_pid = "-0") {
  const pid_t child = ::fork();
  if (child == 0) ::raise(SIGKILL);
  ::waitpid(child, nullptr, 0);
  std::string name = temporary_name(0);
  const std::string own = std::to_string(::getpid()) + "-0";
  return name.replace(name.rfind(own), own.size(), std::to_string(child) + after_pid);
}

/// Killed after it had exchanged the folders: the earlier output, into which a user has put a file.
TEST_F(FileTest, KeepsAUsersFileInALeftover) {
  const fs::path leftover = folder_ / name_of_ended_process();
  fs::create_directory(leftover);
  std::ofstream(leftover / "plan.json") << "{}";
  std::ofstream(leftover / "notes.txt") << "by hand";
  std::ofstream(leftover / kFolderManifestName) << write_folder_manifest({"plan.json"});
  for (int writer = 0; writer < 2; ++writer) {
    remove_leftovers(folder_.path());
    EXPECT_FALSE(fs::exists(leftover / "plan.json"));
    EXPECT_EQ(read_file(leftover / "notes.txt"), "by hand");
  }
  fs::remove(leftover / kFolderManifestName);
  remove_leftovers(folder_.path());
  EXPECT_EQ(read_file(leftover / "notes.txt"), "by hand");
  fs::remove(leftover / "notes.txt");
  remove_leftovers(folder_.path());
  EXPECT_THAT(folder_.names(), testing::IsEmpty());
}

TEST_F(FileTest, KeepsLinksAndOtherNamesThanTemporaries) {
  fs::create_directory(folder_ / "victim");
  make_file("victim/lowgear-files.json", write_folder_manifest({"plan.json"}));
  make_file("victim/plan.json", "{}");
  fs::create_directory_symlink("victim", folder_ / name_of_ended_process());
  for (const std::string middle : {"-0-mine", "-mine", "", "-", "-0x", "--0"}) {
    make_file(name_of_ended_process(middle), "");
  }
  const auto before = folder_.names();
  remove_leftovers(folder_.path());
  EXPECT_EQ(folder_.names(), before);
}

/// The folders of an exchange by renames: both until the second rename, then the earlier one until the third.
TEST_F(FileTest, KeepsBothFoldersOfAnInterruptedExchange) {
  const std::string temporary = name_of_ended_process();
  for (const std::string& name : {temporary, temporary + ".old"}) {
    fs::create_directory(folder_ / name);
    make_file(name + "/plan.json", "{}");
    make_file(name + "/lowgear-files.json", write_folder_manifest({"plan.json"}));
  }
  remove_leftovers(folder_.path());
  EXPECT_EQ(folder_.names().size(), 6U);
  fs::rename(folder_ / temporary, folder_ / "out");
  remove_leftovers(folder_.path());
  EXPECT_THAT(folder_.names(), ElementsAre("out", "out/lowgear-files.json", "out/plan.json"));
}

TEST_F(FileTest, WritesAFileWithTheLongestName) {
  const fs::path file = folder_ / std::string(255, 'n');
  write_file_atomically(file, "x");
  EXPECT_EQ(read_file(file), "x");
}

TEST_F(FileTest, WritesARelativePath) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  write_file_atomically("out.json", "x");
  fs::current_path(before);
  EXPECT_EQ(read_file(folder_ / "out.json"), "x");
}

TEST_F(FileTest, WritesThroughASymbolicLink) {
  make_file("real.json", "before");
  fs::create_symlink("real.json", folder_ / "link.json");
  write_file_atomically(folder_ / "link.json", "after");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.json"));
  EXPECT_EQ(read_file(folder_ / "real.json"), "after");
}

TEST_F(FileTest, LeavesDevicesInPlace) {
  write_file_atomically("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FileTest, TellsWhyAFileCannotBeWritten) {
  const fs::path below_missing = folder_ / "missing" / "out.json";
  EXPECT_EQ(error_of([&] { write_file_atomically(below_missing, "x"); }),
            below_missing.string() + ": cannot be written: No such file or directory; name another place");
  EXPECT_THAT(error_of([&] { write_file_atomically(make_file("f", "kept") / "out.json", "x"); }),
              HasSubstr("Not a directory"));
  EXPECT_THAT(error_of([&] { write_file_atomically(folder_.path(), "x"); }), HasSubstr("Is a directory"));
  EXPECT_THAT(error_of([] { write_file_atomically("", "x"); }), HasSubstr("without a name"));
  EXPECT_THAT(error_of([] { write_file_atomically("-", "x"); }), HasSubstr("name a file or folder"));
  EXPECT_THAT(folder_.names(), ElementsAre("f"));
}

TEST_F(FileTest, TellsBeforehandWhetherAFileCanBeWritten) {
  check_writable(make_file("f", "kept"));
  check_writable(folder_ / "new.json");
  check_writable("/dev/null");
  EXPECT_THAT(error_of([&] { check_writable(folder_ / "missing" / "out.json"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { check_writable(folder_.path()); }), HasSubstr("Is a directory"));
  EXPECT_THAT(folder_.names(), ElementsAre("f"));
  EXPECT_EQ(read_file(folder_ / "f"), "kept");
}

TEST_F(FileTest, WritesToAPipeThatIsNamedThroughItsProcess) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const std::string name = "/proc/self/fd/" + std::to_string(ends[1]);  // as /dev/stdout is
  check_writable(name);
  write_file_atomically(name, "text");
  ::close(ends[1]);
  EXPECT_EQ(read_file("/proc/self/fd/" + std::to_string(ends[0])), "text");
  ::close(ends[0]);
}

TEST_F(FileTest, RefusesAFolderWithoutPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write to every folder";
  fs::permissions(folder_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(error_of([&] { write_file_atomically(folder_ / "out.json", "x"); }), HasSubstr("Permission denied"));
  fs::permissions(folder_.path(), fs::perms::owner_all);
  EXPECT_THAT(folder_.names(), testing::IsEmpty());
}

TEST_F(FileTest, AFullDiskIsNoInputError) {
  try {
    write_file_atomically("/dev/full", "x");
    FAIL() << "nothing can be written to /dev/full";
  } catch (const InputError& error) {
    FAIL() << "the input is not at fault: " << error.what();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "/dev/full: cannot be written: No space left on device; free some space, or name another place");
  }
}

TEST_F(FileTest, KeepsTheOldFileWhenWritingFails) {
  make_file("out.json", "before");
  const auto fill_disk = [this] {
    limit_file_size(1000);
    try {
      write_file_atomically(folder_ / "out.json", std::string(100000, 'x'));
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
      std::_Exit(1);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(fill_disk(), testing::ExitedWithCode(1), "out.json: cannot be written: File too large");
  EXPECT_EQ(read_file(folder_ / "out.json"), "before");
  EXPECT_THAT(folder_.names(), ElementsAre("out.json"));
}

TEST_F(FileTest, StagesAFilePieceByPiece) {
  const fs::path target = make_file("out.bin", "before");
  {
    StagedFile file(target);
    file.write("????");
    file.write("body");
    file.overwrite(1, "ea");
    file.overwrite(0, "h");
    file.write(" end");
    EXPECT_EQ(read_file(target), "before");
    file.commit();
    EXPECT_EQ(read_file(target), "hea?body end");
  }
  EXPECT_EQ(read_file(target), "hea?body end");
  EXPECT_THAT(folder_.names(), ElementsAre("out.bin"));
}

TEST_F(FileTest, LeavesNothingOfAFileThatWasNotCommitted) {
  {
    StagedFile file(folder_ / "out.bin");
    file.write("half");
    EXPECT_EQ(folder_.names().size(), 1U);
  }
  EXPECT_THAT(folder_.names(), testing::IsEmpty());
}

TEST_F(FileTest, StagesNoFileWhereNoneCanStand) {
  fs::create_directory(folder_ / "folder");
  EXPECT_THAT(error_of([&] { StagedFile(folder_ / "folder"); }),
              HasSubstr("folder: cannot be written: Is a directory"));
  EXPECT_EQ(error_of([] { StagedFile("/dev/null"); }),
            "/dev/null: exists and is not a regular file; name another place");
  EXPECT_THAT(error_of([&] { StagedFile(folder_ / "no" / "out.bin"); }), HasSubstr("No such file or directory"));
  EXPECT_THAT(error_of([] { StagedFile(""); }), HasSubstr("without a name"));
}

TEST_F(FileTest, SettlesAnExchangeThatWasCutShort) {
  const fs::path a = folder_ / "a";
  const fs::path b = folder_ / "b";
  const fs::path aside = folder_ / "a.old";
  EXPECT_TRUE(is_set_aside(aside));
  EXPECT_FALSE(is_set_aside(a));
  fs::create_directory(b);
  settle_exchange(a, b);
  EXPECT_THAT(folder_.names(), ElementsAre("b"));
  fs::create_directory(aside);
  make_file("a.old/earlier", "");
  settle_exchange(a, b);
  EXPECT_THAT(folder_.names(), ElementsAre("b")) << "b has been exchanged";
  fs::remove(b);
  fs::create_directory(aside);
  make_file("a.old/earlier", "");
  settle_exchange(a, b);
  EXPECT_THAT(folder_.names(), ElementsAre("b", "b/earlier"));
}

}  // namespace

}  // namespace lowgear

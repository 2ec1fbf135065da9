#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/limited_process.h"
#include "base/core/ordinary_user.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

constexpr const char* kMarker = "frontier.csv";

class StagedDirectoryTest : public testing::Test {
 protected:
  void write_output(const std::string& content) const {
    StagedDirectory staged(out_, kMarker);
    staged.write(kMarker, content);
    staged.write("plans/" + content + ".json", "{}");
    staged.commit();
  }

  TemporaryFolder folder_;
  const fs::path out_ = folder_ / "out";
};

TEST_F(StagedDirectoryTest, AppearsOnCommitOnly) {
  {
    StagedDirectory staged(out_, kMarker);
    staged.write(kMarker, "curve");
    staged.write("plans/deep/1.json", "{}");
    EXPECT_FALSE(fs::exists(out_));
    staged.commit();
    EXPECT_EQ(read_file(out_ / kMarker), "curve");
  }
  EXPECT_THAT(folder_.names(), ElementsAre("out", "out/frontier.csv", "out/lowgear-files.json", "out/plans",
                                           "out/plans/deep", "out/plans/deep/1.json"));
}

TEST_F(StagedDirectoryTest, LeavesNothingWithoutCommit) {
  {
    StagedDirectory staged(out_, kMarker);
    staged.write(kMarker, "curve");
  }
  EXPECT_THAT(folder_.names(), testing::IsEmpty());
}

TEST_F(StagedDirectoryTest, FillsAnEmptyFolder) {
  fs::create_directory(out_);
  write_output("a");
  EXPECT_EQ(read_file(out_ / kMarker), "a");
}

TEST_F(StagedDirectoryTest, MakesTheFoldersAboveIt) {
  const fs::path deep = folder_ / "a" / "b" / "out";
  {
    StagedDirectory staged(deep, kMarker);
    staged.write(kMarker, "curve");
  }
  EXPECT_THAT(folder_.names(), testing::IsEmpty()) << "and removes them again without a commit";
  StagedDirectory staged(deep / "", kMarker);
  staged.write(kMarker, "curve");
  staged.commit();
  EXPECT_THAT(folder_.names(),
              ElementsAre("a", "a/b", "a/b/out", "a/b/out/frontier.csv", "a/b/out/lowgear-files.json"));
}

TEST_F(StagedDirectoryTest, ReplacesAnEarlierOutputWhole) {
  write_output("first");
  write_output("second");
  EXPECT_THAT(folder_.names(),
              ElementsAre("out", "out/frontier.csv", "out/lowgear-files.json", "out/plans", "out/plans/second.json"));
  EXPECT_EQ(read_file(out_ / kMarker), "second");
}

TEST_F(StagedDirectoryTest, KeepsAnEarlierOutputWithoutCommit) {
  write_output("first");
  {
    StagedDirectory staged(out_, kMarker);
    staged.write(kMarker, "second");
    EXPECT_EQ(read_file(out_ / kMarker), "first");
  }
  EXPECT_THAT(folder_.names(),
              ElementsAre("out", "out/frontier.csv", "out/lowgear-files.json", "out/plans", "out/plans/first.json"));
  EXPECT_EQ(read_file(out_ / kMarker), "first");
}

TEST_F(StagedDirectoryTest, FollowsALinkToItsFolder) {
  fs::create_directory(folder_ / "real");
  fs::create_directory_symlink("real", out_);
  write_output("a");
  EXPECT_TRUE(fs::is_symlink(out_));
  EXPECT_EQ(read_file(folder_ / "real" / kMarker), "a");
}

TEST_F(StagedDirectoryTest, RefusesAFolderOfOtherFiles) {
  fs::create_directory(out_);
  write_file_atomically(out_ / "thesis.tex", "years of work");
  EXPECT_EQ(error_of([&] { StagedDirectory(out_, kMarker); }),
            out_.string() +
                ": is not empty and contains no frontier.csv, so it is not an earlier output; name a new or an empty "
                "folder");
  EXPECT_THAT(folder_.names(), ElementsAre("out", "out/thesis.tex"));
}

TEST_F(StagedDirectoryTest, AFolderWithItsMarkerAloneIsNoEarlierOutput) {
  fs::create_directory(out_);
  write_file_atomically(out_ / kMarker, "");
  write_file_atomically(out_ / "model.safetensors", "weeks of training");
  EXPECT_EQ(error_of([&] { StagedDirectory(out_, kMarker); }),
            out_.string() +
                ": contains \"frontier.csv\", which no earlier run lists in lowgear-files.json: the folder is not "
                "replaced; move it elsewhere, or name a new or an empty folder");
  EXPECT_THAT(folder_.names(), ElementsAre("out", "out/frontier.csv", "out/model.safetensors"));
}

TEST_F(StagedDirectoryTest, RefusesByNameWhatWasAddedToAnEarlierOutput) {
  write_output("first");
  for (const std::string name : {"notes.txt", "plans/notes.txt", ".hidden"}) {
    write_file_atomically(out_ / name, "a thought");
    const std::vector<std::string> before = folder_.names();
    EXPECT_THAT(error_of([&] { write_output("second"); }),
                HasSubstr(": contains \"" + name + "\", which no earlier run"));
    EXPECT_EQ(folder_.names(), before);
    fs::remove(out_ / name);
  }
  fs::create_directories(out_ / "empty");
  EXPECT_THAT(error_of([&] { write_output("second"); }), HasSubstr("contains \"empty\""));
  fs::remove(out_ / "empty");
  fs::create_symlink("/dev/null", out_ / "link");
  EXPECT_THAT(error_of([&] { write_output("second"); }), HasSubstr("contains \"link\""));
  fs::remove(out_ / "link");
  write_output("second");
  EXPECT_EQ(read_file(out_ / kMarker), "second");
}

TEST_F(StagedDirectoryTest, RefusesWhatWasAddedWhileItWasFilled) {
  write_output("first");
  StagedDirectory staged(out_, kMarker);
  staged.write(kMarker, "second");
  write_file_atomically(out_ / "notes.txt", "a thought");
  EXPECT_THAT(error_of([&] { staged.commit(); }), HasSubstr("contains \"notes.txt\""));
  EXPECT_EQ(read_file(out_ / "notes.txt"), "a thought");
  EXPECT_EQ(read_file(out_ / kMarker), "first");
}

TEST_F(StagedDirectoryTest, RefusesAManifestThatCannotBeRead) {
  write_output("first");
  write_file_atomically(out_ / "lowgear-files.json", "[]");
  EXPECT_THAT(error_of([&] { StagedDirectory(out_, kMarker); }), HasSubstr("lowgear-files.json"));
}

TEST_F(StagedDirectoryTest, NamesTheParentThatCannotBeWrittenTo) {
  fs::create_directory(out_);
  fs::permissions(folder_.path(), fs::perms(0555));
  const std::string where =
      ": cannot be written: Permission denied in " + folder_.path().string() + ", where it is made; ";
  {
    const OrdinaryUser user;
    EXPECT_EQ(error_of([&] { StagedDirectory(out_, kMarker); }), out_.string() + where + "name a new folder inside it");
    EXPECT_EQ(error_of([&] { write_file_atomically(folder_ / "a.txt", "x"); }),
              (folder_ / "a.txt").string() + where + "name another place");
  }
  fs::permissions(folder_.path(), fs::perms::owner_all);
}

TEST_F(StagedDirectoryTest, NamesWhatItCannotRemove) {
  write_output("first");
  fs::permissions(folder_.path(), fs::perms::all);
  fs::path left;
  {
    const OrdinaryUser user;
    if (::geteuid() != 65534) GTEST_SKIP() << "needs another user's folder";
    StagedDirectory staged(out_, kMarker);
    staged.write(kMarker, "second");
    staged.commit();
    left = staged.left_behind();
  }
  EXPECT_EQ(left.parent_path(), folder_.path());
  EXPECT_TRUE(fs::exists(left / "plans" / "first.json"));
  EXPECT_EQ(read_file(out_ / kMarker), "second");
}

TEST_F(StagedDirectoryTest, RefusesWhatCannotBecomeAFolder) {
  write_file_atomically(out_, "a file");
  EXPECT_THAT(error_of([&] { StagedDirectory(out_, kMarker); }), HasSubstr("exists and is not a folder"));
  EXPECT_THAT(error_of([&] { StagedDirectory(out_ / "below", kMarker); }), HasSubstr("Not a directory"));
  EXPECT_THAT(error_of([&] { StagedDirectory(out_ / "far" / "below", kMarker); }), HasSubstr("Not a directory"));
  EXPECT_THAT(error_of([] { StagedDirectory("", kMarker); }), HasSubstr("without a name"));
  EXPECT_THAT(error_of([] { StagedDirectory("/proc", kMarker); }), HasSubstr("is a mount point"));
  EXPECT_THAT(error_of([] { StagedDirectory("/proc/nothing/can/be/made/here", kMarker); }),
              HasSubstr("cannot be written"));
  EXPECT_THAT(folder_.names(), ElementsAre("out"));
}

TEST_F(StagedDirectoryTest, RefusesTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const std::string error = error_of([] { StagedDirectory(".", kMarker); });
  fs::current_path(before);
  EXPECT_THAT(error, HasSubstr("is the current folder; name a folder inside it"));
}

TEST_F(StagedDirectoryTest, DoesNotReplaceWhatOthersPutThereMeanwhile) {
  StagedDirectory staged(out_, kMarker);
  staged.write(kMarker, "curve");
  fs::create_directory(out_);
  write_file_atomically(out_ / "thesis.tex", "years of work");
  EXPECT_THAT(error_of([&] { staged.commit(); }), HasSubstr("is not empty"));
  EXPECT_EQ(read_file(out_ / "thesis.tex"), "years of work");
}

TEST_F(StagedDirectoryTest, AFullDiskLeavesTheEarlierOutput) {
  write_output("first");
  const auto fill_disk = [this] {
    limit_file_size(1000);
    try {
      StagedDirectory staged(out_, kMarker);
      staged.write(kMarker, std::string(100000, 'x'));
      staged.commit();
    } catch (const InputError&) {
      std::_Exit(2);
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
      std::_Exit(1);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(fill_disk(), testing::ExitedWithCode(1), "out/frontier.csv: cannot be written: File too large");
  EXPECT_THAT(folder_.names(),
              ElementsAre("out", "out/frontier.csv", "out/lowgear-files.json", "out/plans", "out/plans/first.json"));
}

TEST_F(StagedDirectoryTest, ReplacesAnEarlierOutputWhereTwoNamesCannotBeExchanged) {
  write_output("first");
  const auto replace = [this] {
    if (!forbid_exchange()) std::_Exit(3);
    write_output("second");
    std::_Exit(0);
  };
  EXPECT_EXIT(replace(), testing::ExitedWithCode(0), "");
  EXPECT_THAT(folder_.names(),
              ElementsAre("out", "out/frontier.csv", "out/lowgear-files.json", "out/plans", "out/plans/second.json"));
}

}  // namespace
}  // namespace lowgear

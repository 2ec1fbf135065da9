#include "base/core/files/folder_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

class FolderManifestTest : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& content = "") const {
    fs::create_directories((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, content);
  }
  void list(const FolderFiles& files) const { add("lowgear-files.json", write_folder_manifest(files)); }

  TemporaryFolder folder_;
};

TEST_F(FolderManifestTest, IsReadAsItWasWritten) {
  EXPECT_THAT(listed_files(folder_.path()), testing::IsEmpty());
  list({"run.json", "plans/00000.json"});
  EXPECT_THAT(listed_files(folder_.path()), ElementsAre("plans/00000.json", "run.json"));
}

TEST_F(FolderManifestTest, IsRefusedWhenItIsNone) {
  for (const std::string text :
       {"", "{}", R"({"format":"lowgear.files/2","files":[]})", R"({"format":"lowgear.files/1","files":[1]})"}) {
    add("lowgear-files.json", text);
    EXPECT_THAT(error_of([&] { (void)listed_files(folder_.path()); }), HasSubstr("lowgear-files.json"));
  }
}

TEST_F(FolderManifestTest, NamesTheFirstThatIsNotListed) {
  EXPECT_EQ(unlisted_entry(folder_.path()), std::nullopt);
  list({"run.json", "plans/00000.json"});
  add("run.json");
  add("plans/00000.json");
  EXPECT_EQ(unlisted_entry(folder_.path()), std::nullopt);
  add("plans/00001.json");
  EXPECT_EQ(unlisted_entry(folder_.path()), "plans/00001.json");
  add("notes.txt");
  EXPECT_EQ(unlisted_entry(folder_.path()), "notes.txt");
}

TEST_F(FolderManifestTest, AListedNameThatHasBecomeALinkOrAFolderIsNotListed) {
  list({"run.json"});
  fs::create_symlink("/dev/null", folder_ / "run.json");
  EXPECT_EQ(unlisted_entry(folder_.path()), "run.json");
  fs::remove(folder_ / "run.json");
  fs::create_directory(folder_ / "run.json");
  EXPECT_EQ(unlisted_entry(folder_.path()), "run.json");
}

TEST_F(FolderManifestTest, RemovesWhatIsListedAndNothingElse) {
  const fs::path out = folder_ / "out";
  add("kept.txt");
  add("out/plans/00000.json");
  add("out/notes/today.txt");
  fs::create_directory_symlink(folder_.path(), out / "link");
  add("out/lowgear-files.json", write_folder_manifest({"plans/00000.json", "../kept.txt", "link/kept.txt"}));
  remove_listed_files(out);
  EXPECT_THAT(folder_.names(),
              ElementsAre("kept.txt", "out", "out/link", "out/lowgear-files.json", "out/notes", "out/notes/today.txt"));
}

TEST_F(FolderManifestTest, RemovesTheManifestWithTheLastFile) {
  add("out/plans/00000.json");
  add("out/lowgear-files.json", write_folder_manifest({"plans/00000.json"}));
  remove_listed_files(folder_ / "out");
  EXPECT_THAT(folder_.names(), testing::IsEmpty());
}

TEST_F(FolderManifestTest, WritesAFileBesideOthersAndListsIt) {
  add("mine.txt", "text");
  write_listed_file(folder_.path(), "profile.csv", "first");
  write_listed_file(folder_.path(), "profile.csv", "second");
  EXPECT_EQ(read_file(folder_ / "profile.csv"), "second");
  EXPECT_THAT(listed_files(folder_.path()), ElementsAre("profile.csv"));
  EXPECT_THAT(error_of([&] { write_listed_file(folder_.path(), "mine.txt", "other"); }),
              HasSubstr("mine.txt: exists, and no earlier run lists it in lowgear-files.json: it is not replaced"));
  EXPECT_EQ(read_file(folder_ / "mine.txt"), "text");
  write_listed_file(folder_.path(), "mine.txt", "text");
  EXPECT_EQ(read_file(folder_ / "mine.txt"), "text");
}

}  // namespace
}  // namespace lowgear

#include "base/core/files/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/files/mapped_file.h"
#include "base/core/temporary_folder.h"

namespace lowgear {
namespace {

using std::string_literals::operator""s;
using testing::HasSubstr;

constexpr std::string_view kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:0000000000000000000000000000000000000000000000000000000000000000\n"
    "size 9085657\n";

TEST(FileKind, IsKnownByMagicNumbers) {
  EXPECT_EQ(known_file_kind("\x1f\x8b\x08\0"s), "a gzip archive");
  EXPECT_EQ(known_file_kind("MMIDIDX\0\0\1"s), "an index of Megatron (.idx)");
  EXPECT_EQ(known_file_kind("\x93NUMPY\1\0"s), "a NumPy array");
  EXPECT_EQ(known_file_kind("BZh91AY&SY..."), "a bzip2 archive");
  EXPECT_EQ(known_file_kind(std::string(257, 'n') + "ustar"), "a tar archive");
  EXPECT_EQ(known_file_kind("\2\0\0\0\0\0\0\0{}"s), "a safetensors file");
  EXPECT_EQ(known_file_kind("\x80\4\x95\x10\0\0\0\0\0\0\0"s), "a pickle of Python");
  EXPECT_EQ(known_file_kind("\x80\3]q\0(K\1K\2e."s), "a pickle of Python");
  EXPECT_EQ(known_file_kind("RIFF\x24\0\0\0WAVEfmt "s), "a RIFF file (WAV, AVI or WebP)");
  EXPECT_EQ(known_file_kind("\xff\xff\xff\xff\xb0\1\0\0\x10\0\0\0\0\0"s), "an Arrow table");
  EXPECT_EQ(known_file_kind("lmgg\1\0\0\0"s), "a GGML model");
}

TEST(FileKind, IsNotKnownOfTextAndNumbers) {
  for (const std::string& content :
       {""s, "RIFF is a format"s, "\x80\2]"s, "\x80\2]q\0"s, "\xff\xff\xff\xff\1\0\1\0\2\0\2\0"s, "stage,kind\n"s,
        "{\"a\": 1}"s, "\x80\4\1\0\7\0\1\2\3\4\5"s, "PK"s, "\n\x0e\n\5<unk>\x15"s, std::string(kPointer)}) {
    EXPECT_EQ(known_file_kind(content), "") << content;
  }
}

TEST(FileKind, NoReaderTakesAPointerOfGitLfsForTheFile) {
  const TemporaryFolder folder;
  const std::string path = (folder / "model.bin").string();
  write_file_atomically(path, kPointer);
  const std::string refusal = path + ": a Git LFS pointer, not the file itself; run `git lfs pull` in its folder";
  EXPECT_EQ(error_of([&] { (void)read_file(path); }), refusal);
  EXPECT_EQ(error_of([&] { const MappedFile file(path); }), refusal);
  // A text about pointers is larger than any pointer.
  const std::string text = std::string(kPointer) + std::string(1024, '.');
  write_file_atomically(path, text);
  EXPECT_EQ(read_file(path), text);
}

TEST(FileKind, NoArchiveIsReadAsText) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "profile.csv", "PK\3\4...");
  EXPECT_THAT(error_of([&] { (void)read_file(folder / "profile.csv"); }),
              HasSubstr("profile.csv: cannot be read: it is a zip archive (as spreadsheets, .npz and PyTorch's files "
                        "are); unpack or convert it"));
  for (const std::string& text : {std::string("\xff\xfe\x61\0", 4), std::string("\xfe\xff\0\x61", 4)}) {
    write_file_atomically(folder / "utf16.csv", text);
    EXPECT_THAT(error_of([&] { (void)read_file(folder / "utf16.csv"); }),
                HasSubstr("it is text in UTF-16; save it as"));
  }
}

}  // namespace
}  // namespace lowgear

#include "training/tensorfile/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/limited_process.h"
#include "base/core/output_of.h"
#include "base/core/temporary_folder.h"
#include "training/tensorfile/safetensors_bytes.h"

namespace lowgear::tensorfile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The message of the Error that is no InputError: what only a mistake of the program, or the system, brings about.
template <typename Action>
std::string failure_of(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return std::string("an InputError: ") + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// What the independent reader makes of a file.
std::string read_by_python(const std::filesystem::path& path) {
  return output_of("python3 " LOWGEAR_SOURCE_DIR "/tests/training/tensorfile/read_safetensors.py " + path.string());
}

class SafetensorsWriterTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "m.safetensors";
};

TEST_F(SafetensorsWriterTest, WritesWhatAnotherReaderReads) {
  const std::vector<float> floats = {1.0F, -2.5F, 0.0F};
  const std::vector<std::int64_t> words = {-1, 1LL << 40};
  const std::string byte_text = "\x01\x02\x03";
  const std::vector<TensorView> tensors = {
      {.name = "bytes", .type = TensorType::u8, .shape = {3, 1}, .data = bytes_of(byte_text)},
      {.name = "model.layers.0 \"quoted\" \xC3\xA9", .type = TensorType::f32, .shape = {3}, .data = bytes_of(floats)},
      {.name = "empty", .type = TensorType::bf16, .shape = {2, 0}, .data = {}},
      {.name = "words", .type = TensorType::i64, .shape = {2}, .data = bytes_of(words)},
      {.name = "scalar", .type = TensorType::boolean, .shape = {}, .data = bytes_of(byte_text).first(1)},
  };
  write_safetensors(path_, tensors, {{"format", "pt"}, {"step", "7"}});
  EXPECT_EQ(read_by_python(path_),
            "metadata {\"format\": \"pt\", \"step\": \"7\"}\n"
            "bytes U8 [3, 1] 010203\n"
            "empty BF16 [2, 0] \n"
            "model.layers.0 \"quoted\" \xC3\xA9 F32 [3] 0000803f000020c000000000\n"
            "scalar BOOL [] 01\n"
            "words I64 [2] ffffffffffffffff0000000000010000\n");
}

TEST_F(SafetensorsWriterTest, WritesEveryTypeSoThatItIsReadBack) {
  const std::string data(8 * 6, 'd');
  std::vector<TensorView> tensors;
  for (const TensorType type : {TensorType::boolean, TensorType::u8, TensorType::i8, TensorType::i16, TensorType::i32,
                                TensorType::i64, TensorType::bf16, TensorType::f16, TensorType::f32, TensorType::f64}) {
    tensors.push_back({.name = std::string(name(type)),
                       .type = type,
                       .shape = {2, 3},
                       .data = bytes_of(data).first(6 * element_bytes(type))});
  }
  write_safetensors(path_, tensors);
  const SafetensorsFile file = SafetensorsFile::open(path_);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorView* const found = file.find(tensor.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->type, tensor.type);
    EXPECT_EQ(found->shape, tensor.shape);
    ASSERT_EQ(found->data.size(), tensor.data.size());
    EXPECT_EQ(std::memcmp(found->data.data(), tensor.data.data(), tensor.data.size()), 0);
    // Wider types come first, so that every tensor is aligned in a file that is mapped at a page.
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->data.data()) % element_bytes(found->type), 0U) << tensor.name;
  }
  EXPECT_THAT(read_by_python(path_), HasSubstr("F16 F16 [2, 3]"));
}

TEST_F(SafetensorsWriterTest, TakesPiecesOfAnySize) {
  const std::string data = "0123456789abcdef";
  SafetensorsWriter writer(path_, {{.name = "a", .type = TensorType::u8, .shape = {6}},
                                   {.name = "none", .type = TensorType::u8, .shape = {0}},
                                   {.name = "b", .type = TensorType::u8, .shape = {10}},
                                   {.name = "end", .type = TensorType::u8, .shape = {0, 5}}});
  writer.write("a", bytes_of(data).first(1));
  writer.write("a", {});
  writer.write("a", bytes_of(data).subspan(1, 5));
  writer.write("b", bytes_of(data).subspan(6, 4));
  writer.write("b", bytes_of(data).subspan(10));
  EXPECT_THAT(folder_.names(), testing::Not(testing::Contains("m.safetensors")));  // there only when it is whole
  writer.commit();
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(std::memcmp(file.find("a")->data.data(), "012345", 6), 0);
  EXPECT_EQ(std::memcmp(file.find("b")->data.data(), "6789abcdef", 10), 0);
  EXPECT_THAT(folder_.names(), ElementsAre("m.safetensors"));
}

TEST_F(SafetensorsWriterTest, RefusesDataInAnotherOrderTooMuchOrTooLittle) {
  const std::string data(100, 'x');
  const auto writer = [this] {
    return std::make_unique<SafetensorsWriter>(
        path_, std::vector<TensorSpec>{{.name = "a", .type = TensorType::f32, .shape = {2}},
                                       {.name = "b", .type = TensorType::u8, .shape = {1}}});
  };
  EXPECT_THAT(failure_of([&] { writer()->write("b", bytes_of(data).first(1)); }),
              HasSubstr("tensor \"b\": 8 bytes of \"a\" come first"));
  EXPECT_THAT(failure_of([&] { writer()->write("a", bytes_of(data).first(9)); }),
              HasSubstr("tensor \"a\": 9 bytes where 8 are missing"));
  EXPECT_THAT(failure_of([&] {
                auto half = writer();
                half->write("a", bytes_of(data).first(8));
                half->write("a", bytes_of(data).first(1));
              }),
              HasSubstr("tensor \"a\": 1 bytes where 0 are missing"));
  EXPECT_THAT(failure_of([&] {
                auto half = writer();
                half->write("a", bytes_of(data).first(8));
                half->commit();
              }),
              HasSubstr("tensor \"b\": 1 bytes are missing"));
  EXPECT_THAT(failure_of([&] {
                auto whole = writer();
                whole->write("a", bytes_of(data).first(8));
                whole->write("b", bytes_of(data).first(1));
                whole->write("c", {});
              }),
              HasSubstr("tensor \"c\": all tensors have been written"));
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(SafetensorsWriterTest, RefusesTensorsThatNoFileCanHave) {
  const auto failure = [this](std::vector<TensorSpec> tensors, const TensorMetadata& metadata = {}) {
    return failure_of([&] { SafetensorsWriter(path_, std::move(tensors), metadata).commit(); });
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(failure({{.name = "a", .type = TensorType::u8, .shape = {0}},
                       {.name = "a", .type = TensorType::u8, .shape = {0}}}),
              HasSubstr("the name is taken"));
  EXPECT_THAT(failure({{.name = "__metadata__", .type = TensorType::u8, .shape = {0}}}),
              HasSubstr("the name is taken"));
  EXPECT_THAT(failure({{.name = "a", .type = TensorType::u8, .shape = {-1}}}),
              HasSubstr("no tensor has the shape [-1]"));
  EXPECT_THAT(failure({{.name = "a", .type = TensorType::f32, .shape = {kHuge}}}),
              HasSubstr("no tensor has the shape"));
  EXPECT_THAT(failure({{.name = "a", .type = TensorType::u8, .shape = {kHuge}},
                       {.name = "b", .type = TensorType::u8, .shape = {kHuge}},
                       {.name = "c", .type = TensorType::u8, .shape = {kHuge}}}),
              HasSubstr("the file is too large"));
  EXPECT_THAT(failure({{.name = "\xff", .type = TensorType::u8, .shape = {0}}}), HasSubstr("is not UTF-8"));
  EXPECT_THAT(failure({}, {{"a", "\xff"}}), HasSubstr("is not UTF-8"));
  const std::string data = "12";
  const std::vector<TensorView> short_one = {
      {.name = "a", .type = TensorType::u8, .shape = {3}, .data = bytes_of(data)}};
  EXPECT_THAT(failure_of([&] { write_safetensors(path_, short_one); }), HasSubstr("1 bytes are missing"));
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(SafetensorsWriterTest, RefusesAPlaceThatCannotBeWritten) {
  EXPECT_THAT(error_of([&] { write_safetensors(folder_ / "none" / "m.safetensors", {}); }),
              HasSubstr("cannot be written: No such file or directory"));
  EXPECT_THAT(error_of([&] { write_safetensors(folder_.path(), {}); }), HasSubstr("Is a directory"));
}

TEST_F(SafetensorsWriterTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  write_file_atomically(path_, "before");
  const auto fill_disk = [this] {
    limit_file_size(10000);
    try {
      const std::string data(100000, 'x');
      SafetensorsWriter writer(path_, {{.name = "a", .type = TensorType::u8, .shape = {100000}}});
      writer.write("a", bytes_of(data));
      writer.commit();
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
      std::_Exit(1);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(fill_disk(), testing::ExitedWithCode(1), "m.safetensors: cannot be written: File too large");
  EXPECT_EQ(read_file(path_), "before");
  EXPECT_THAT(folder_.names(), ElementsAre("m.safetensors"));
}

TEST_F(SafetensorsWriterTest, AnUnfinishedFileIsNeverThere) {
  {
    SafetensorsWriter writer(path_, {{.name = "a", .type = TensorType::u8, .shape = {2}}});
    writer.write("a", bytes_of(std::string_view("x")));
  }
  EXPECT_THAT(folder_.names(), IsEmpty());
}

}  // namespace
}  // namespace lowgear::tensorfile

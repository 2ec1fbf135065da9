#include "training/tensorfile/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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

using ::testing::HasSubstr;

constexpr std::string_view kTwoTensors =
    R"({"__metadata__":{"format":"pt"},)"
    R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}  )";

std::string refusal(const std::string& bytes) {
  return error_of([&] { (void)parse_safetensors(bytes_of(bytes), "m.safetensors"); });
}

/// What is said of a file with this header and `data_bytes` of data.
std::string refusal_of(std::string_view header, std::size_t data_bytes) {
  return refusal(safetensors_bytes(header, std::string(data_bytes, 'x')));
}

TEST(TensorType, HasSizeAndName) {
  EXPECT_EQ(element_bytes(TensorType::f64), 8U);
  EXPECT_EQ(element_bytes(TensorType::bf16), 2U);
  EXPECT_EQ(element_bytes(TensorType::boolean), 1U);
  EXPECT_EQ(name(TensorType::i16), "I16");
  EXPECT_EQ(name(TensorType::boolean), "BOOL");
}

TEST(TensorBytes, AreElementsTimesTheirSize) {
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(tensor_bytes(TensorType::f32, Shape{}), 4U);  // a scalar
  EXPECT_EQ(tensor_bytes(TensorType::bf16, Shape{3, 5}), 30U);
  EXPECT_EQ(tensor_bytes(TensorType::f32, Shape{0, std::numeric_limits<std::int64_t>::max(), 4}), 0U);
  EXPECT_EQ(tensor_bytes(TensorType::u8, Shape{-1}), std::nullopt);
  EXPECT_EQ(tensor_bytes(TensorType::u8, Shape{0, -1}), std::nullopt);
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_EQ(tensor_bytes(TensorType::u8, Shape{half, half}), std::nullopt);
  EXPECT_EQ(tensor_bytes(TensorType::f64, Shape{std::int64_t{1} << 61}), std::nullopt);
  EXPECT_EQ(tensor_bytes(TensorType::u8, Shape{half, half / 2}), std::size_t{1} << 63U);
}

TEST(Safetensors, GivesTensorsInTheOrderOfTheirData) {
  const std::string bytes = safetensors_bytes(kTwoTensors, "01234567abc");
  const SafetensorsContent content = parse_safetensors(bytes_of(bytes), "m.safetensors");
  ASSERT_EQ(content.tensors.size(), 2U);
  const TensorView& first = content.tensors[0];
  EXPECT_EQ(first.name, "a");
  EXPECT_EQ(first.type, TensorType::f32);
  EXPECT_THAT(first.shape, testing::ElementsAre(2, 1));
  EXPECT_EQ(std::memcmp(first.data.data(), "01234567", first.data.size()), 0);
  EXPECT_EQ(first.data.size(), 8U);
  EXPECT_EQ(content.tensors[1].name, "b");
  EXPECT_EQ(static_cast<char>(content.tensors[1].data[2]), 'c');
  EXPECT_THAT(content.metadata, testing::ElementsAre(std::pair("format", "pt")));
}

TEST(Safetensors, MayBeEmptyOrHaveEmptyTensors) {
  EXPECT_THAT(parse_safetensors(bytes_of(safetensors_bytes("{}", "")), "m").tensors, testing::IsEmpty());
  const std::string bytes = safetensors_bytes(
      R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},)"
      R"("z":{"dtype":"F64","shape":[0],"data_offsets":[2,2]}})",
      "xx");
  const SafetensorsContent content = parse_safetensors(bytes_of(bytes), "m");
  EXPECT_THAT(content.tensors[0].name, "e");
  EXPECT_THAT(content.tensors[1].name, "w");
  EXPECT_THAT(content.tensors[2].name, "z");
}

TEST(Safetensors, RefusesAnAbsurdHeader) {
  EXPECT_THAT(refusal(""), testing::StartsWith("m.safetensors: 0 bytes, too few for a safetensors file"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("7 bytes, too few"));
  EXPECT_THAT(
      refusal("PK\x03\x04, then the pickle of PyTorch"),
      HasSubstr("it is a zip archive (as spreadsheets, .npz and PyTorch's files are), and no safetensors file"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("a header of 18446744073709551615 bytes, above 100000000"));
  std::string truncated = safetensors_bytes(kTwoTensors, "");
  truncated.resize(50);
  EXPECT_THAT(refusal(truncated), HasSubstr("a header of 142 bytes in a file of 50; the file is damaged or truncated"));
  EXPECT_THAT(refusal_of("", 4), HasSubstr("its header does not begin with {"));
  EXPECT_THAT(refusal_of(" {}", 0), HasSubstr("its header does not begin with {"));
  EXPECT_THAT(refusal_of("\xEF\xBB\xBF{}", 0), HasSubstr("its header does not begin with {"));
  EXPECT_THAT(refusal_of("[]", 0), HasSubstr("its header does not begin with {"));
  EXPECT_THAT(refusal_of("{", 0), testing::StartsWith("m.safetensors:1:2: not valid JSON"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"a":)";
  EXPECT_THAT(refusal_of(deep, 0), HasSubstr("nested deeper than"));
}

TEST(Safetensors, RefusesATensorThatIsNotDescribed) {
  for (const auto& [tensor, what] : std::vector<std::pair<std::string, std::string>>{
           {R"(3)", R"(m.safetensors: $["w"]: expected an object)"},
           {R"({"shape":[2],"data_offsets":[0,2]})", R"($["w"]: the member "dtype" is missing)"},
           {R"({"dtype":"U8","data_offsets":[0,2]})", R"($["w"]: the member "shape" is missing)"},
           {R"({"dtype":"U8","shape":[2]})", R"($["w"]: the member "data_offsets" is missing)"},
           {R"({"dtype":"U8","shape":[2],"data_offsets":[0,2],"x":1})", "has more members than"},
           {R"({"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]})",
            R"($["w"].dtype: the type "F8_E4M3" is not supported; convert the tensor to F64,)"},
           {R"({"dtype":"u8","shape":[2],"data_offsets":[0,2]})", R"(the type "u8" is not supported)"},
           {R"({"dtype":"U8","shape":2,"data_offsets":[0,2]})", R"($["w"].shape: expected an array)"},
           {R"({"dtype":"U8","shape":[-2],"data_offsets":[0,2]})", R"($["w"].shape[0]: -2 is not a dimension)"},
           {R"({"dtype":"U8","shape":[1.5],"data_offsets":[0,2]})", R"($["w"].shape[0]: expected a whole number)"},
           {R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,2]})", "more elements than can be"},
           {R"({"dtype":"U8","shape":[2],"data_offsets":[0]})", R"($["w"].data_offsets: expected two offsets)"},
           {R"({"dtype":"U8","shape":[2],"data_offsets":[0,3]})",
            R"($["w"].data_offsets[1]: 3 is outside the 2 bytes)"},
           {R"({"dtype":"U8","shape":[2],"data_offsets":[-1,1]})", R"($["w"].data_offsets[0]: -1 is outside)"},
           {R"({"dtype":"U8","shape":[2],"data_offsets":[2,0]})", "2 comes after 0"},
           {R"({"dtype":"U8","shape":[2],"data_offsets":[0,18446744073709551615]})", "expected a whole number"},
           {R"({"dtype":"F32","shape":[2],"data_offsets":[0,2]})",
            R"($["w"]: F32 of shape [2] takes 8 bytes, but it has 2; the file is damaged)"},
           {R"({"dtype":"U8","shape":[],"data_offsets":[0,2]})", "U8 of shape [] takes 1 bytes, but it has 2"},
       }) {
    EXPECT_THAT(refusal_of(R"({"w":)" + tensor + "}", 2), HasSubstr(what));
  }
}

TEST(Safetensors, RefusesOverlapsGapsAndDuplicates) {
  const auto pair = [](std::string_view first, std::string_view second, const std::string& second_name = "b") {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(first) + R"(},")" + second_name +
           R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(second) + "}}";
  };
  EXPECT_THAT(refusal_of(pair("[0,4]", "[4,8]"), 8), "no error");
  EXPECT_THAT(refusal_of(pair("[0,4]", "[3,7]"), 7), HasSubstr("the tensors \"a\" and \"b\" overlap"));
  EXPECT_THAT(refusal_of(pair("[0,4]", "[0,4]"), 4), HasSubstr("the tensors \"a\" and \"b\" overlap"));
  EXPECT_THAT(refusal_of(pair("[0,4]", "[5,9]"), 9), HasSubstr("the bytes 4 to 5 of its data belong to no tensor"));
  EXPECT_THAT(refusal_of(pair("[5,9]", "[1,5]"), 9), HasSubstr("the bytes 0 to 1 of its data belong to no tensor"));
  EXPECT_THAT(refusal_of(pair("[0,4]", "[4,8]"), 10), HasSubstr("the bytes 8 to 10 of its data belong to no tensor"));
  EXPECT_THAT(refusal_of("{}", 1), HasSubstr("the bytes 0 to 1 of its data belong to no tensor"));
  EXPECT_THAT(refusal_of(pair("[0,4]", "[4,8]", "a"), 8), HasSubstr("the key \"a\" occurs twice"));
}

TEST(Safetensors, RefusesMetadataThatIsNoText) {
  EXPECT_EQ(refusal_of(R"({"__metadata__":null})", 0), "no error") << "as the reference reader";
  EXPECT_THAT(refusal_of(R"({"__metadata__":3})", 0), HasSubstr("expected an object of texts"));
  EXPECT_THAT(refusal_of(R"({"__metadata__":{"a":3}})", 0), HasSubstr(R"($.__metadata__["a"]: expected text)"));
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string whole = safetensors_bytes(kTwoTensors, "01234567abc");
  ASSERT_EQ(refusal(whole), "no error");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "no error") << size << " bytes";
  }
}

TEST(SafetensorsFile, IsReadFromDisk) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "m.safetensors";
  write_file_atomically(path, safetensors_bytes(kTwoTensors, "01234567abc"));
  SafetensorsFile opened = SafetensorsFile::open(path);
  const TensorView* const b = opened.find("b");
  const SafetensorsFile file = std::move(opened);
  EXPECT_EQ(file.find("b"), b);  // moving keeps what was handed out
  EXPECT_EQ(static_cast<char>(b->data[0]), 'a');
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.path(), path);
}

TEST(SafetensorsFile, StaysReadableWhenItIsReplaced) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "m.safetensors", safetensors_bytes(kTwoTensors, "01234567abc"));
  const SafetensorsFile file = SafetensorsFile::open(folder / "m.safetensors");
  write_file_atomically(folder / "m.safetensors", "other");
  EXPECT_EQ(static_cast<char>(file.find("b")->data[2]), 'c');
}

TEST(SafetensorsFile, RefusesWhatItCannotRead) {
  const TemporaryFolder folder;
  const auto refusal_at = [](const std::filesystem::path& path) {
    return error_of([&] { (void)SafetensorsFile::open(path); });
  };
  EXPECT_THAT(refusal_at(folder / "none"), HasSubstr("none: cannot be read: No such file"));
  EXPECT_THAT(refusal_at(folder.path()), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal_at("/dev/null"), HasSubstr("it is not a regular file"));
  write_file_atomically(folder / "empty", "");
  EXPECT_THAT(refusal_at(folder / "empty"), HasSubstr("empty: 0 bytes, too few"));
}

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

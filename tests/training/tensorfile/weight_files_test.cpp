#include "training/tensorfile/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/tensorfile/safetensors.h"
#include "training/tensorfile/safetensors_bytes.h"

namespace lowgear::tensorfile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;

class WeightFilesTest : public testing::Test {
 protected:
  /// A file of tensors of one byte each, which is the last of their names.
  void write_tensors(const std::string& file, const std::vector<std::string>& names) {
    std::vector<TensorView> tensors;
    for (const std::string& name : names) {
      tensors.push_back(
          {.name = name, .type = TensorType::u8, .shape = {1}, .data = bytes_of(std::string_view(name)).last(1)});
    }
    write_safetensors(folder_ / file, tensors);
  }
  void write_index(std::string_view text) {
    write_file_atomically(folder_ / "model.safetensors.index.json", std::string(text));
  }
  [[nodiscard]] std::string refusal() const {
    return error_of([&] { (void)WeightFiles::open(folder_.path()); });
  }

  TemporaryFolder folder_;
};

char byte_of(const TensorView& tensor) { return static_cast<char>(tensor.data[0]); }

TEST_F(WeightFilesTest, AreOneFile) {
  write_tensors("model.safetensors", {"w.a", "w.b"});
  for (const std::filesystem::path& path : {folder_.path(), folder_ / "model.safetensors"}) {
    const WeightFiles weights = WeightFiles::open(path);
    EXPECT_THAT(weights.tensors(), ElementsAre(Key("w.a"), Key("w.b")));
    EXPECT_EQ(byte_of(weights.at("w.b")), 'b');
    EXPECT_EQ(weights.find("w.c"), nullptr);
    EXPECT_THAT(error_of([&] { (void)weights.at("w.c"); }),
                HasSubstr("model.safetensors: the tensor \"w.c\" is missing; give the weights of the model"));
  }
}

TEST_F(WeightFilesTest, AreSeveralFilesWithAnIndex) {
  write_tensors("model-00001-of-00002.safetensors", {"a", "b"});
  write_tensors("model-00002-of-00002.safetensors", {"c", "unused"});
  write_index(R"({"metadata":{"total_size":3},"weight_map":{"a":"model-00001-of-00002.safetensors",
                  "c":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors"}})");
  for (const std::filesystem::path& path : {folder_.path(), folder_ / "model.safetensors.index.json"}) {
    WeightFiles opened = WeightFiles::open(path);
    const TensorView* const c = opened.find("c");
    const WeightFiles weights = std::move(opened);
    EXPECT_EQ(weights.find("c"), c);  // moving keeps what was handed out
    EXPECT_EQ(byte_of(*c), 'c');
    EXPECT_EQ(byte_of(weights.at("a")), 'a');
    EXPECT_THAT(weights.tensors(), ElementsAre(Key("a"), Key("b"), Key("c"), Key("unused"))) << "that no index names";
  }
}

TEST_F(WeightFilesTest, TakeTheSingleFileFirst) {
  write_tensors("model.safetensors", {"single"});
  write_index(R"({"weight_map":{}})");
  EXPECT_NE(WeightFiles::open(folder_.path()).find("single"), nullptr);
}

TEST_F(WeightFilesTest, RefuseAFolderWithout) {
  EXPECT_THAT(refusal(),
              HasSubstr("holds neither model.safetensors nor model.safetensors.index.json; name the folder"));
  EXPECT_THAT(error_of([&] { (void)WeightFiles::open(folder_ / "none"); }), HasSubstr("No such file"));
}

TEST_F(WeightFilesTest, RefuseAPointerOfGitLfs) {
  write_file_atomically(folder_ / "model.safetensors",
                        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors: a Git LFS pointer, not the file itself; run `git lfs pull`"));
}

TEST_F(WeightFilesTest, RefuseAnIndexThatLeadsElsewhere) {
  write_tensors("m.safetensors", {"a"});
  const std::string outside = (folder_ / "m.safetensors").string();
  for (const std::string& file : {std::string(), std::string("."), std::string(".."), std::string("../m.safetensors"),
                                  outside, std::string("sub/m.safetensors"), std::string("m.safetensors\\u0000")}) {
    write_index(R"({"weight_map":{"a":")" + file + R"("}})");
    EXPECT_THAT(refusal(), HasSubstr("is not a file in the folder of the index; name a file in the same folder"))
        << file;
  }
}

TEST_F(WeightFilesTest, RefuseATensorThatIsInTwoFiles) {
  write_tensors("1.safetensors", {"a", "b"});
  write_tensors("2.safetensors", {"b", "c"});
  write_index(R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("2.safetensors: the tensor \"b\" is in another file, as "));
}

TEST_F(WeightFilesTest, RefuseAnIndexThatDoesNotFitItsFiles) {
  write_tensors("m.safetensors", {"a"});
  for (const auto& [index, what] : std::vector<std::pair<std::string, std::string>>{
           {"", "not valid JSON"},
           {"{}", "\"weight_map\" is missing"},
           {R"({"weight_map":[]})", "$.weight_map: expected an object"},
           {R"({"weight_map":{"a":1}})", R"($.weight_map["a"]: expected text)"},
           {R"({"weight_map":{"b":"m.safetensors"}})",
            R"($.weight_map["b"]: "m.safetensors" has no such tensor; copy)"},
           {R"({"weight_map":{"a":"other.safetensors"}})", "other.safetensors: cannot be read: No such file"},
           {R"({"weight_map":{"a":"model.safetensors.index.json"}})", "model.safetensors.index.json"},
           {R"({"weight_map":{"a":"m.safetensors","a":"m.safetensors"}})", "occurs twice"},
       }) {
    write_index(index);
    EXPECT_THAT(refusal(), HasSubstr(what));
  }
}

}  // namespace
}  // namespace lowgear::tensorfile

#include "training/launcher/model_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/files/mapped_file.h"
#include "base/core/temporary_folder.h"
#include "estimating/model/config_json.h"
#include "training/launcher/saved_weights.h"
#include "training/tensorfile/safetensors.h"

namespace lowgear::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ModelWeightsTest : public testing::Test {
 protected:
  [[nodiscard]] ModelWeights opened() const {
    save(folder_ / "model.safetensors", tensors_);
    return ModelWeights::open(folder_.path(), small_gpt2());
  }
  [[nodiscard]] std::string refusal() const {
    return error_of([&] { (void)opened(); });
  }

  /// Overwrites the last element of a tensor in the file.
  void put(const std::string& name, const std::string& element) const {
    const std::filesystem::path path = folder_ / "model.safetensors";
    const MappedFile file(path);
    std::string bytes(file.text());
    const auto content = tensorfile::parse_safetensors(file.bytes(), path.string());
    const auto tensor = std::ranges::find(content.tensors, name, &tensorfile::TensorView::name);
    const auto end = static_cast<std::size_t>(tensor->data.data() + tensor->data.size() - file.bytes().data());
    bytes.replace(end - element.size(), element.size(), element);
    write_file_atomically(path, bytes);
  }

  TemporaryFolder folder_;
  SavedTensors tensors_ = tensors_of(small_gpt2());
};

TEST_F(ModelWeightsTest, HoldEveryParameter) {
  const ModelWeights weights = opened();
  for (const model::ParameterSpec& spec : parameters(small_gpt2())) {
    EXPECT_EQ(weights.at(spec.name).name, spec.name);
    EXPECT_EQ(weights.at(spec.name).shape, spec.shape);
  }
  EXPECT_THROW((void)weights.at("lm_head.weight"), Error);
}

TEST_F(ModelWeightsTest, MayLackThePrefixAndHaveBuffersAndTheOutputMatrix) {
  tensors_["h.1.attn.bias"] = {"", tensorfile::TensorType::boolean, {1, 1, 16, 16}};
  tensors_["lm_head.weight"] = {"", tensorfile::TensorType::f16, {256, 8}};
  tensors_["wte.weight"] = {"", tensorfile::TensorType::bf16, {256, 8}};
  tensors_.erase("transformer.wte.weight");
  EXPECT_EQ(opened().at("transformer.wte.weight").name, "wte.weight");
}

/// As google-bert/bert-base-uncased has them.
TEST(ModelWeightsOfBert, MayHaveOldNamesOfNormsAndOtherHeads) {
  const model::ModelConfig bert = model::parse_trainable_config(
      R"({"model_type": "bert", "vocab_size": 64, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
          "num_attention_heads": 2, "max_position_embeddings": 16})",
      "config.json");
  SavedTensors tensors;
  for (const auto& [name, tensor] : tensors_of(bert)) {
    std::string old = name;
    if (name.ends_with("LayerNorm.weight")) old.replace(old.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) old.replace(old.size() - 4, 4, "beta");
    tensors[old] = tensor;
  }
  tensors["bert.pooler.dense.weight"] = {"", tensorfile::TensorType::f32, {8, 8}};
  tensors["cls.seq_relationship.bias"] = {"", tensorfile::TensorType::f32, {2}};
  const TemporaryFolder folder;
  save(folder / "model.safetensors", tensors);
  const ModelWeights weights = ModelWeights::open(folder.path(), bert);
  EXPECT_EQ(weights.at("bert.embeddings.LayerNorm.weight").name, "bert.embeddings.LayerNorm.gamma");
  EXPECT_EQ(weights.at("cls.predictions.transform.LayerNorm.bias").name, "cls.predictions.transform.LayerNorm.beta");
  tensors["bert.head.weight"] = {"", tensorfile::TensorType::f32, {8}};
  save(folder / "model.safetensors", tensors);
  EXPECT_THAT(error_of([&] { (void)ModelWeights::open(folder.path(), bert); }),
              HasSubstr("\"bert.head.weight\": the model has none of this name"));
}

TEST_F(ModelWeightsTest, NameTheFirstParameterThatIsNoNumber) {
  EXPECT_EQ(opened().non_finite_parameter(), "");
  using tensorfile::TensorType;
  for (const auto& [type, number] : {std::pair{TensorType::f32, std::string("\0\0\xC0\x7F", 4)},
                                     {TensorType::bf16, std::string("\x80\xFF", 2)},
                                     {TensorType::f16, std::string("\0\x7C", 2)}}) {
    const std::string name = "transformer.ln_f.bias";
    tensors_[name].type = type;
    save(folder_ / "model.safetensors", tensors_);
    put(name, number);
    EXPECT_EQ(ModelWeights::open(folder_.path(), small_gpt2()).non_finite_parameter(), name);
  }
}

TEST_F(ModelWeightsTest, ThatLackATensorAreRefused) {
  tensors_.erase("transformer.ln_f.bias");
  EXPECT_THAT(refusal(), AllOf(HasSubstr((folder_ / "model.safetensors").string()),
                               HasSubstr("the tensor \"transformer.ln_f.bias\" is missing")));
}

TEST_F(ModelWeightsTest, WithTwoNamesOfOneTensorAreRefused) {
  tensors_["wte.weight"] = tensors_.at("transformer.wte.weight");
  EXPECT_THAT(refusal(), HasSubstr("\"wte.weight\": is there as \"transformer.wte.weight\", too"));
}

TEST_F(ModelWeightsTest, OfAnotherModelAreRefused) {
  tensors_["transformer.h.2.ln_1.bias"] = {"", tensorfile::TensorType::f32, {8}};
  EXPECT_THAT(refusal(), HasSubstr("\"transformer.h.2.ln_1.bias\": the model has none of this name"));
}

TEST_F(ModelWeightsTest, OfAnotherShapeOrTypeAreRefused) {
  tensors_["transformer.h.1.mlp.c_fc.weight"].shape = {32, 8};
  EXPECT_THAT(refusal(), AllOf(HasSubstr(folder_.path().string()), HasSubstr("transformer.h.1.mlp.c_fc.weight"),
                               HasSubstr("expected the shape [8, 32], not [32, 8]")));
  tensors_["transformer.h.1.mlp.c_fc.weight"] = {"", tensorfile::TensorType::i32, {8, 32}};
  EXPECT_THAT(refusal(), HasSubstr("expected F32, BF16 or F16, not I32"));
}

}  // namespace
}  // namespace lowgear::launcher

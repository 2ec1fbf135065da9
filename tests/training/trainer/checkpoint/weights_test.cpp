#include "training/trainer/checkpoint/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/limited_process.h"
#include "base/core/temporary_folder.h"
#include "estimating/model/config_json.h"
#include "estimating/model/parameters.h"
#include "training/tensorfile/safetensors.h"
#include "training/tensorfile/weight_files.h"
#include "training/trainer/checkpoint/job_folder.h"
#include "training/trainer/state_job.h"
#include "training/trainer/test_models.h"

namespace lowgear::trainer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A model's file as tensors, which own their data.
using Tensors = std::map<std::string, at::Tensor>;

tensorfile::TensorType type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return tensorfile::TensorType::f32;
    case at::kHalf:
      return tensorfile::TensorType::f16;
    case at::kBFloat16:
      return tensorfile::TensorType::bf16;
    default:
      return tensorfile::TensorType::i64;
  }
}

void write(const fs::path& path, const Tensors& tensors) {
  std::vector<tensorfile::TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    views.push_back({name,
                     type_of(tensor),
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}});
  }
  write_safetensors(path, views);
}

Tensors read(const fs::path& path) {
  const tensorfile::WeightFiles files = tensorfile::WeightFiles::open(path);
  Tensors tensors;
  for (const auto& [name, view] : files.tensors()) {
    const at::Tensor tensor =
        at::empty(view->shape, view->type == tensorfile::TensorType::bf16 ? at::kBFloat16 : at::kFloat);
    std::memcpy(tensor.data_ptr(), view->data.data(), view->data.size());
    tensors[name] = tensor;
  }
  return tensors;
}

/// Random weights as files have them.
Tensors random_weights(const model::ModelConfig& model) {
  auto generator = at::detail::createCPUGenerator(3);
  Tensors tensors;
  for (const model::ParameterSpec& spec : parameters(model)) tensors[spec.name] = at::randn(spec.shape, generator);
  return tensors;
}

launcher::TrainConfig config_of(const model::ModelConfig& model, const protocol::JobParallel& parallel = {}) {
  launcher::TrainConfig config;
  config.model = model;
  config.parallel = parallel;
  return config;
}

void load(const launcher::TrainConfig& config, const fs::path& path) {
  run_state_job(config, [&](StateRank& rank) { load_weights(path, config.model, rank.store()); });
}

/// What a job makes of the weights at `from`.
Tensors loaded_and_exported(const launcher::TrainConfig& config, const fs::path& from, const fs::path& to) {
  run_state_job(config, [&](StateRank& rank) {
    load_weights(from, config.model, rank.store());
    export_weights(to, config.model, rank.store(), {rank.place().pp, config.parallel.pp}, rank.ranks());
  });
  return read(to);
}

void expect_equal(const Tensors& tensors, const Tensors& expected) {
  ASSERT_EQ(tensors.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(tensors.contains(name)) << name;
    EXPECT_TRUE(at::equal(tensors.at(name), tensor)) << name;
  }
}

TEST(Weights, AreTheSameAfterLoadingAndExporting) {
  for (const model::ModelConfig& model : {tiny_llama(), tiny_llama(true), tiny_gpt2()}) {
    const TemporaryFolder folder;
    const Tensors weights = random_weights(model);
    write(folder / "model.safetensors", weights);
    int count = 0;
    for (const protocol::JobParallel& parallel :
         {protocol::JobParallel{}, protocol::JobParallel{.pp = 4}, protocol::JobParallel{.dp = 2, .tp = 2},
          protocol::JobParallel{.pp = 2, .dp = 2, .tp = 2}, protocol::JobParallel{.pp = 2, .chunks = 2}}) {
      const fs::path target = folder / std::to_string(++count);
      expect_equal(loaded_and_exported(config_of(model, parallel), folder / "model.safetensors", target), weights);
      const model::ModelConfig exported =
          model::parse_trainable_config(read_file(target / "config.json"), "config.json");
      EXPECT_EQ(to_json(exported), to_json(model));
    }
  }
}

TEST(Weights, OfGpt2AreTransposed) {
  const TemporaryFolder folder;
  const Tensors weights = random_weights(tiny_gpt2());
  write(folder / "model.safetensors", weights);
  run_state_job(config_of(tiny_gpt2()), [&](StateRank& rank) {
    load_weights(folder.path(), tiny_gpt2(), rank.store());
    for (const Parameter& parameter : rank.store().parameters()) {
      const at::Tensor& file = weights.at(parameter.name);
      const bool conv1d = parameter.name.find(".c_") != std::string::npos && file.dim() == 2;
      EXPECT_TRUE(at::equal(parameter.value, conv1d ? file.t() : file)) << parameter.name;
    }
  });
}

TEST(Weights, MayLackThePrefixAndHaveBuffers) {
  const TemporaryFolder folder;
  const Tensors weights = random_weights(tiny_gpt2());
  Tensors bare;
  for (const auto& [name, tensor] : weights) bare[name.substr(std::string("transformer.").size())] = tensor;
  bare["h.0.attn.bias"] = at::ones({1, 1, 4, 4});
  bare["h.0.attn.masked_bias"] = at::ones({1});
  write(folder / "model.safetensors", bare);
  expect_equal(loaded_and_exported(config_of(tiny_gpt2()), folder.path(), folder / "out"), weights);
}

TEST(Weights, OfATiedModelMayHaveTheOutputMatrixToo) {
  const TemporaryFolder folder;
  Tensors weights = random_weights(tiny_llama(true));
  const Tensors expected = weights;
  weights["lm_head.weight"] = weights.at("model.embed_tokens.weight").clone();
  weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({4});
  write(folder / "model.safetensors", weights);
  expect_equal(loaded_and_exported(config_of(tiny_llama(true), {.pp = 2}), folder.path(), folder / "out"), expected);
}

TEST(Weights, AreConvertedToTheTypeOfTheStore) {
  const TemporaryFolder folder;
  Tensors weights = random_weights(tiny_llama());
  Tensors expected;
  for (auto& [name, tensor] : weights) {
    expected[name] = tensor.to(at::kBFloat16);
    if (name.find("layers.1") != std::string::npos) {
      tensor = tensor.to(at::kHalf);
      expected[name] = tensor.to(at::kBFloat16);
    }
  }
  write(folder / "model.safetensors", weights);
  launcher::TrainConfig config = config_of(tiny_llama(), {.pp = 2, .tp = 2});
  config.bf16 = true;
  expect_equal(loaded_and_exported(config, folder.path(), folder / "out"), expected);
}

class WrongWeights : public testing::Test {
 protected:
  [[nodiscard]] std::string error() {
    write(file(), weights_);
    return error_of([&] { load(config_of(tiny_llama(), {.pp = 2}), folder_.path()); });
  }
  [[nodiscard]] fs::path file() const { return folder_ / "model.safetensors"; }

  TemporaryFolder folder_;
  Tensors weights_ = random_weights(tiny_llama());
};

TEST_F(WrongWeights, LackATensor) {
  weights_.erase("model.norm.weight");
  EXPECT_THAT(error(), AllOf(HasSubstr(file().string()), HasSubstr("\"model.norm.weight\" is missing")));
}

TEST_F(WrongWeights, HaveAnotherShape) {
  weights_["model.layers.7.mlp.down_proj.weight"] = at::ones({48, 32});
  EXPECT_THAT(error(), AllOf(HasSubstr(folder_.path().string()), HasSubstr("model.layers.7.mlp.down_proj.weight"),
                             HasSubstr("expected the shape [32, 48], not [48, 32]")));
}

TEST_F(WrongWeights, HaveAnotherVocabulary) {
  weights_["model.embed_tokens.weight"] = at::ones({65, 32});
  EXPECT_THAT(error(), AllOf(HasSubstr("model.embed_tokens.weight"), HasSubstr("expected the shape [64, 32]")));
}

TEST_F(WrongWeights, AreOfAnotherType) {
  weights_["model.norm.weight"] = at::ones({32}, at::kLong);
  EXPECT_THAT(error(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("expected F32, BF16 or F16, not I64")));
}

TEST_F(WrongWeights, AreOfALargerModel) {
  weights_["model.layers.8.input_layernorm.weight"] = at::ones({32});
  EXPECT_THAT(error(), AllOf(HasSubstr("model.layers.8.input_layernorm.weight"), HasSubstr("none of this name")));
}

/// The weights that are exported, and what two stages make of them.
constexpr std::array kOutOfTwoStages = {"model.safetensors",
                                        "out",
                                        "out/config.json",
                                        "out/lowgear-files.json",
                                        "out/model-00001-of-00002.safetensors",
                                        "out/model-00002-of-00002.safetensors",
                                        "out/model.safetensors.index.json"};

TEST(Export, ReplacesAnEarlierOne) {
  const TemporaryFolder folder;
  const launcher::TrainConfig config = config_of(tiny_llama(), {.pp = 2});
  write(folder / "model.safetensors", random_weights(tiny_llama()));
  for (int i = 0; i < 2; ++i) loaded_and_exported(config, folder / "model.safetensors", folder / "out/");
  EXPECT_THAT(folder.names(), testing::ElementsAreArray(kOutOfTwoStages));
}

TEST(Export, GoesWhereALinkLeads) {
  const TemporaryFolder folder;
  write(folder / "model.safetensors", random_weights(tiny_llama()));
  fs::create_directories(folder / "disk/out");
  fs::create_directory_symlink(folder / "disk/out", folder / "link");
  for (int i = 0; i < 2; ++i) {
    loaded_and_exported(config_of(tiny_llama()), folder / "model.safetensors", folder / "link");
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
    EXPECT_THAT(folder.names(), ElementsAre("disk", "disk/out", "disk/out/config.json", "disk/out/lowgear-files.json",
                                            "disk/out/model.safetensors", "link", "model.safetensors"));
  }
}

TEST(Export, ReplacesAnEarlierOneWhereTwoNamesCannotBeExchanged) {
  const TemporaryFolder folder;
  write(folder / "model.safetensors", random_weights(tiny_llama()));
  std::thread([&] {
    ASSERT_TRUE(forbid_exchange());
    for (const int ranks : {1, 2}) {
      loaded_and_exported(config_of(tiny_llama(), {.pp = ranks}), folder / "model.safetensors", folder / "out");
    }
  }).join();
  EXPECT_THAT(folder.names(), testing::ElementsAreArray(kOutOfTwoStages));
}

TEST(Export, PutsRightWhatAnExchangeLeftThatWasCutShort) {
  const TemporaryFolder folder;
  write(folder / "model.safetensors", random_weights(tiny_llama()));
  const auto export_once = [&](int ranks) {
    loaded_and_exported(config_of(tiny_llama(), {.pp = ranks}), folder / "model.safetensors", folder / "out");
  };
  for (const bool earlier_is_back : {false, true}) {
    export_once(1);
    fs::path aside = temporary_of(folder / "out");
    aside += ".old";
    fs::copy(folder / "out", aside);
    if (!earlier_is_back) fs::remove_all(folder / "out");
    std::thread([&] {
      ASSERT_TRUE(forbid_exchange());
      export_once(2);
    }).join();
    EXPECT_THAT(folder.names(),
                ElementsAre("model.safetensors", "out", "out/config.json", "out/lowgear-files.json",
                            "out/model-00001-of-00002.safetensors", "out/model-00002-of-00002.safetensors",
                            "out/model.safetensors.index.json"));
  }
}

TEST(Export, StaysWhereItIsCompleteWhenItCannotBePutInPlace) {
  const TemporaryFolder folder;
  write(folder / "model.safetensors", random_weights(tiny_llama()));
  fs::create_directory(folder / "out");
  write_file_atomically(folder / "out/thesis.tex", "");
  const fs::path temporary = temporary_of(folder / "out");
  EXPECT_THAT(
      error_of([&] { loaded_and_exported(config_of(tiny_llama()), folder / "model.safetensors", folder / "out"); }),
      AllOf(HasSubstr("thesis.tex"), HasSubstr("; it is complete in " + temporary.string())));
  EXPECT_TRUE(fs::exists(temporary / "config.json"));
  EXPECT_TRUE(fs::exists(temporary / "model.safetensors"));
}

class ExportIntoAFolderOfOthers : public testing::Test {
 protected:
  ExportIntoAFolderOfOthers() { write(folder_ / "model.safetensors", random_weights(tiny_llama())); }
  /// What an export to `out` is refused with, after which the folder is as it was and the export is beside it.
  [[nodiscard]] std::string refusal() {
    const std::vector<std::string> before = folder_.names();
    const std::string error =
        error_of([&] { loaded_and_exported(config_of(tiny_llama(), {.pp = 2}), folder_ / "model.safetensors", out_); });
    fs::remove_all(temporary_of(out_));
    EXPECT_EQ(folder_.names(), before);
    EXPECT_THAT(error, HasSubstr(error_of([&] { launcher::require_export_folder(out_); })));
    return error;
  }
  void export_once() { loaded_and_exported(config_of(tiny_llama()), folder_ / "model.safetensors", out_); }
  void add(const std::string& name) {
    fs::create_directories((out_ / name).parent_path());
    write_file_atomically(out_ / name, "");
  }

  TemporaryFolder folder_;
  fs::path out_ = folder_ / "out";
};

TEST_F(ExportIntoAFolderOfOthers, RemovesNothingBesideAnEarlierExport) {
  export_once();
  for (const std::string name : {"tokenizer.json", "ckpt/step-00000004/checkpoint.json", "model-final.safetensors",
                                 "model-00001-of-2.safetensors", ".hidden"}) {
    add(name);
    EXPECT_THAT(refusal(), AllOf(HasSubstr(out_.string()), HasSubstr('"' + name.substr(0, name.find('/')) + '"'),
                                 HasSubstr("not replaced")));
    fs::remove_all(out_ / name.substr(0, name.find('/')));
  }
  fs::rename(out_ / "config.json", folder_ / "elsewhere.json");
  fs::create_symlink(folder_ / "elsewhere.json", out_ / "config.json");
  EXPECT_THAT(refusal(), HasSubstr("\"config.json\", which does not belong to an export"));
}

TEST_F(ExportIntoAFolderOfOthers, RemovesNoPartOfAnExport) {
  add("config.json");
  EXPECT_THAT(refusal(), HasSubstr("contains only a config.json"));
  fs::remove(out_ / "config.json");
  add("model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("contains only weights"));
}

TEST_F(ExportIntoAFolderOfOthers, ReplacesNoModelFromElsewhere) {
  add("config.json");
  add("model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("contains \"config.json\", which no earlier run lists in lowgear-files.json"));
}

TEST_F(ExportIntoAFolderOfOthers, ReplacesOneOfAnotherNumberOfRanks) {
  export_once();
  loaded_and_exported(config_of(tiny_llama(), {.pp = 2}), folder_ / "model.safetensors", out_);
  EXPECT_FALSE(fs::exists(out_ / "model.safetensors"));
  export_once();
  EXPECT_THAT(folder_.names(), ElementsAre("model.safetensors", "out", "out/config.json", "out/lowgear-files.json",
                                           "out/model.safetensors"));
}

void prepare(const protocol::JobParallel& parallel, const fs::path& target) {
  run_state_job(config_of(tiny_llama(), parallel),
                [&](StateRank& rank) { prepare_export(target, *rank.ranks().world); });
}

TEST(PreparedExport, LeavesNothingBehind) {
  const TemporaryFolder folder;
  prepare({.pp = 2}, folder / "several/levels/out/");
  EXPECT_THAT(folder.names(), testing::IsEmpty());
  fs::create_directory(folder / "in");
  write(folder / "in/model.safetensors", random_weights(tiny_llama()));
  loaded_and_exported(config_of(tiny_llama()), folder / "in", folder / "several/levels/out");
  prepare({.pp = 2}, folder / "several/levels/out");
  EXPECT_THAT(folder.names(),
              ElementsAre("in", "in/model.safetensors", "several", "several/levels", "several/levels/out",
                          "several/levels/out/config.json", "several/levels/out/lowgear-files.json",
                          "several/levels/out/model.safetensors"));
}

TEST(PreparedExport, RefusesWhereNoneCanBe) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "");
  fs::create_directory(folder / "mine");
  write_file_atomically(folder / "mine/thesis.tex", "");
  EXPECT_THAT(error_of([&] { prepare({.pp = 2}, folder / "file/out"); }),
              AllOf(HasSubstr((folder / "file/out").string()), HasSubstr("cannot be written: Not a directory")));
  EXPECT_THAT(error_of([&] { prepare({.pp = 2}, folder / "file"); }), HasSubstr("exists and is not a folder"));
  fs::create_symlink(folder / "nowhere", folder / "link");
  EXPECT_THAT(error_of([&] { prepare({.pp = 2}, folder / "link"); }), HasSubstr("is a link that leads nowhere"));
  EXPECT_THAT(error_of([&] { prepare({.pp = 2}, folder / "mine"); }), HasSubstr("contains \"thesis.tex\""));
  constexpr std::size_t kAsLongAsNamesMayBe = 255;
  EXPECT_THAT(error_of([&] { prepare({.pp = 2}, folder / std::string(kAsLongAsNamesMayBe, 'a')); }),
              HasSubstr("File name too long"));
  EXPECT_THAT(folder.names(), ElementsAre("file", "link", "mine", "mine/thesis.tex"));
}

}  // namespace
}  // namespace lowgear::trainer

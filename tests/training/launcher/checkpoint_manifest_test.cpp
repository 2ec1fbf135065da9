#include "training/launcher/checkpoint_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "estimating/model/config_json.h"

namespace lowgear::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

model::ModelConfig small_model() {
  model::ModelConfig model;
  model.vocabulary = 64;
  model.hidden = 32;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = 4;
  model.head_dim = 8;
  model.intermediate = 48;
  model.max_positions = 64;
  return model;
}

CheckpointData small_data() {
  return {.samples = 800, .sequence_length = 64, .tokens = 1'000'000, .fingerprint = 0xFFFF'FFFF};
}

CheckpointManifest small_manifest() {
  return {.step = 100,
          .optimizer_steps = 99,
          .seed = 7,
          .model = small_model(),
          .parallel = {.pp = 2, .dp = 1, .tp = 2, .chunks = 1},
          .data = small_data(),
          .loss_scale = LossScaleState{.scale = 4096, .good_steps = 17},
          .files = {{"rank-00000.safetensors", 3}, {"rank-00001.safetensors", 5}}};
}

/// A query matrix of which the second of two ranks has the middle.
CheckpointPiece small_piece() {
  return {.name = "model.layers.0.self_attn.q_proj.weight",
          .shape = {32, 32},
          .dimension = 0,
          .groups = 1,
          .part = 1,
          .parts = 2,
          .begin = 100,
          .end = 200};
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(CheckpointManifest, IsReadAsItWasWritten) {
  const CheckpointManifest manifest = small_manifest();
  const CheckpointManifest read = parse_manifest(write_manifest(manifest), "checkpoint.json");
  EXPECT_EQ(read.step, 100);
  EXPECT_EQ(read.optimizer_steps, 99);
  EXPECT_EQ(read.seed, 7U);
  EXPECT_EQ(model::to_json(read.model), model::to_json(manifest.model));
  EXPECT_EQ(read.parallel.pp, 2);
  EXPECT_EQ(read.parallel.tp, 2);
  EXPECT_EQ(read.data, manifest.data);
  EXPECT_EQ(read.loss_scale, manifest.loss_scale);
  EXPECT_EQ(read.files, manifest.files);
}

TEST(CheckpointManifest, MaySayNothingOfTheData) {
  CheckpointManifest manifest = small_manifest();
  manifest.data.reset();
  const std::string text = write_manifest(manifest);
  EXPECT_THAT(text, Not(HasSubstr("data")));
  EXPECT_FALSE(parse_manifest(text, "checkpoint.json").data);
}

TEST(CheckpointManifest, SaysWhatWasFrozenIfAnythingWas) {
  CheckpointManifest manifest = small_manifest();
  EXPECT_THAT(write_manifest(manifest), Not(HasSubstr("frozen")));
  EXPECT_EQ(parse_manifest(write_manifest(manifest), "checkpoint.json").frozen_blocks, 0);
  manifest.frozen_blocks = 1;
  const std::string text = write_manifest(manifest);
  EXPECT_EQ(parse_manifest(text, "checkpoint.json").frozen_blocks, 1);
  const std::string wrong = with(text, "\"frozen_blocks\": 1", "\"frozen_blocks\": 3");  // of 2
  EXPECT_THAT(error_of([&] { (void)parse_manifest(wrong, "checkpoint.json"); }), HasSubstr("$.frozen_blocks"));
}

TEST(CheckpointManifest, NamesTheMemberThatIsWrong) {
  const std::string text = write_manifest(small_manifest());
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of([&] { (void)parse_manifest(with(text, from, to), "checkpoint.json"); });
  };
  EXPECT_THAT(error("\"step\": 100", "\"step\": -1"), HasSubstr("checkpoint.json: $.step"));
  EXPECT_THAT(error("\"step\": 100", "\"stop\": 100"), HasSubstr("step"));
  EXPECT_THAT(error("\"tp\": 2", "\"tp\": 0"), HasSubstr("$.parallel.tp"));
  EXPECT_THAT(error("\"samples\": 800", "\"samples\": -1"), HasSubstr("$.data.samples"));
  EXPECT_THAT(error("\"samples\": 800", "\"samples\": 9000000000000000000"), HasSubstr("$.data.samples"));
  EXPECT_THAT(error("\"sequence_length\": 64", "\"sequence_length\": 0"), HasSubstr("$.data.sequence_length"));
  EXPECT_THAT(error("\"tokens\": 1000000", "\"tokens\": 0"), HasSubstr("$.data.tokens"));
  EXPECT_THAT(error("\"fingerprint\": 4294967295", "\"fingerprint\": 4294967296"), HasSubstr("$.data.fingerprint"));
  EXPECT_THAT(error("\"fingerprint\"", "\"footprint\""), HasSubstr("fingerprint"));
  EXPECT_THAT(error("\"bytes\": 5", "\"bytes\": -5"), HasSubstr("$.files[1].bytes"));
  EXPECT_THAT(error("rank-00001.safetensors", "../rank-00001.safetensors"), HasSubstr("$.files[1].name"));
  EXPECT_THAT(error("\"hidden_size\": 32", "\"hidden_size\": 0"), HasSubstr("hidden_size"));
  EXPECT_THAT(error("checkpoint/1", "checkpoint/9"), HasSubstr("lowgear.checkpoint/9"));
}

TEST(CheckpointPieces, AreReadAsTheyWereWritten) {
  CheckpointPiece whole = small_piece();
  whole.name = "model.norm.weight";
  whole.shape = {32};
  whole.dimension = -1;
  whole.part = 0;
  whole.parts = 1;
  whole.begin = 0;
  whole.end = 32;
  const std::vector<CheckpointPiece> pieces = {small_piece(), whole};
  EXPECT_EQ(parse_pieces(write_pieces(pieces), "pieces"), pieces);
  EXPECT_EQ(part_elements(small_piece(), "pieces"), 512);
}

TEST(CheckpointPieces, ThatCannotBeAreRefused) {
  const std::string text = write_pieces({small_piece()});
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of([&] { (void)parse_pieces(with(text, from, to), "rank-00003"); });
  };
  EXPECT_THAT(error("\"end\":200", "\"end\":513"), AllOf(HasSubstr("rank-00003"), HasSubstr("q_proj"),
                                                         HasSubstr("elements 100 to 513 of a part that has 512")));
  EXPECT_THAT(error("\"end\":200", "\"end\":99"), HasSubstr("$[0].end"));
  EXPECT_THAT(error("\"part\":1", "\"part\":2"), HasSubstr("$[0].part"));
  EXPECT_THAT(error("\"parts\":2", "\"parts\":3"), HasSubstr("are not 1 groups of 3 parts"));
  EXPECT_THAT(error("\"dimension\":0", "\"dimension\":-1"), HasSubstr("are not 1 groups of 2 parts"));
  EXPECT_THAT(error("\"dimension\":0", "\"dimension\":2"), HasSubstr("$[0].dimension"));
  EXPECT_THAT(error("[32,32]", "[32,0]"), HasSubstr("$[0].shape[1]"));
  EXPECT_THAT(error("[32,32]", "[16777216,16777216,2]"), HasSubstr("$[0].shape[2]"));
  EXPECT_THAT(error("[32,32]", "[]"), HasSubstr("$[0].shape"));
}

class CheckpointFolder : public testing::Test {
 protected:
  /// A checkpoint whose files are as long as they should be.
  void add(std::int64_t step) {
    const auto path = folder_ / checkpoint_folder_name(step);
    std::filesystem::create_directory(path);
    write_file_atomically(path / "rank-00000.safetensors", "abc");
    write_file_atomically(path / "rank-00001.safetensors", "abcde");
    write_file_atomically(path / kManifestName, write_manifest(small_manifest()));
  }
  TemporaryFolder folder_;
};

TEST_F(CheckpointFolder, ListsWhatIsComplete) {
  add(100);
  add(9);
  std::filesystem::create_directory(folder_ / "step-00000200");
  std::filesystem::create_directory(folder_ / ".step-00000300.lowgear-tmp");
  std::filesystem::copy(folder_ / "step-00000009", folder_ / "step-9");
  add(123'456'789'012);
  EXPECT_THAT(complete_checkpoints(folder_.path()), ElementsAre(9, 100, 123'456'789'012));
}

TEST_F(CheckpointFolder, MayBeMissing) { EXPECT_THAT(complete_checkpoints(folder_ / "none"), IsEmpty()); }

TEST_F(CheckpointFolder, ThatIsAFileIsRefused) {
  write_file_atomically(folder_ / "file", "");
  EXPECT_THAT(error_of([&] { (void)complete_checkpoints(folder_ / "file"); }), HasSubstr((folder_ / "file").string()));
}

TEST_F(CheckpointFolder, MustHoldFilesAsLongAsTheyWere) {
  add(100);
  EXPECT_EQ(read_manifest(folder_ / "step-00000100").step, 100);
  write_file_atomically(folder_ / "step-00000100/rank-00001.safetensors", "abcd");
  EXPECT_THAT(error_of([&] { (void)read_manifest(folder_ / "step-00000100"); }),
              AllOf(HasSubstr("rank-00001.safetensors"), HasSubstr("has 4 bytes, and 5 when it was written")));
  std::filesystem::remove(folder_ / "step-00000100/rank-00001.safetensors");
  EXPECT_THAT(error_of([&] { (void)read_manifest(folder_ / "step-00000100"); }),
              AllOf(HasSubstr("rank-00001.safetensors"), HasSubstr("cannot be read")));
}

TEST(SameTraining, MayHaveAnotherLayoutAndLength) {
  TrainConfig config;
  config.model = small_model();
  config.model.max_positions = 128;
  config.seed = 7;
  EXPECT_NO_THROW(require_same_training(small_manifest(), config, "step-00000100"));
}

TEST(SameTraining, HasTheSameModelAndSeed) {
  TrainConfig config;
  config.model = small_model();
  config.seed = 8;
  EXPECT_THAT(error_of([&] { require_same_training(small_manifest(), config, "step-00000100"); }),
              AllOf(HasSubstr("step-00000100"), HasSubstr("seed 7"), HasSubstr("has 8")));
  config.model.rope_theta = 5e5;
  EXPECT_THAT(error_of([&] { require_same_training(small_manifest(), config, "step-00000100"); }),
              HasSubstr("rope_theta is 10000.0 there, and 500000.0 here"));
}

TEST(SameData, MayHaveGivenAnyNumberOfSamples) {
  CheckpointData here = small_data();
  here.samples = 0;
  EXPECT_NO_THROW(require_same_data(small_data(), here, "step-00000100"));
}

TEST(SameData, HasTheSameTextAndSequences) {
  const auto error = [](const CheckpointData& here) {
    return error_of([&] { require_same_data(small_data(), here, "step-00000100"); });
  };
  const std::string fix =
      "; continue with the data that it was trained on, or begin another training with its weights (see "
      "docs/training.md)";
  CheckpointData here = small_data();
  here.fingerprint = 1;
  EXPECT_EQ(error(here),
            "step-00000100: was trained on another text than the configuration's, of as many tokens" + fix);
  here.tokens = 3000;
  EXPECT_EQ(error(here),
            "step-00000100: was trained on a text of 1000000 tokens, and the configuration's has 3000" + fix);
  here.sequence_length = 32;
  EXPECT_EQ(error(here), "step-00000100: was trained on sequences of 64 tokens, and the configuration has 32" + fix);
}

}  // namespace
}  // namespace lowgear::launcher

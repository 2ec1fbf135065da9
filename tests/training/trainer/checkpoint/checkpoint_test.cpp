#include "training/trainer/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/limited_process.h"
#include "base/core/temporary_folder.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/trainer/checkpoint/job_folder.h"
#include "training/trainer/state_job.h"
#include "training/trainer/test_models.h"

namespace lowgear::trainer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct SavedLayout {
  int pp = 1;
  int dp = 1;
  int tp = 1;
  int chunks = 1;
  bool zero1 = false;
  std::int64_t frozen = 0;

  friend void PrintTo(const SavedLayout& layout, std::ostream* out) {
    *out << "pp" << layout.pp << " dp" << layout.dp << " tp" << layout.tp << " chunks" << layout.chunks
         << (layout.zero1 ? " zero1" : "") << " frozen" << layout.frozen;
  }
};

launcher::TrainConfig config_of(const SavedLayout& layout, const model::ModelConfig& model = tiny_llama()) {
  launcher::TrainConfig config;
  config.model = model;
  config.parallel = {.pp = layout.pp, .dp = layout.dp, .tp = layout.tp, .chunks = layout.chunks};
  config.optimizer.zero1 = layout.zero1;
  config.freeze.prefixes = {{.step = 0, .blocks = layout.frozen}};
  return config;
}

/// Saves made-up values; those of `step` differ from all others.
void save(const launcher::TrainConfig& config, const fs::path& folder, std::int64_t step = 7) {
  run_state_job(config, [&](StateRank& rank) {
    rank.for_each_stretch([&](const Parameter& parameter, int moment, std::int64_t begin, const at::Tensor& stretch) {
      stretch.copy_(made_up_moment(parameter, moment).narrow(0, begin, stretch.numel()));
    });
    rank.optimizer().set_steps(step);
    save_checkpoint(folder, step, config, rank.state(), rank.ranks());
  });
}

/// Loads and compares with what was made up.
void expect_loads(const launcher::TrainConfig& config, const fs::path& path, std::int64_t step = 7) {
  std::atomic<int> stretches = 0;
  run_state_job(config, [&](StateRank& rank) {
    EXPECT_EQ(load_checkpoint(path, config, rank.state(), rank.ranks()), step);
    EXPECT_EQ(rank.optimizer().steps(), step);
    rank.for_each_stretch([&](const Parameter& parameter, int moment, std::int64_t begin, const at::Tensor& stretch) {
      ++stretches;
      const at::Tensor expected = made_up_moment(parameter, moment).narrow(0, begin, stretch.numel());
      EXPECT_TRUE(at::equal(stretch, expected)) << parameter.name << " moment " << moment;
    });
    for (const Parameter& parameter : rank.store().parameters()) {
      const at::Tensor expected = made_up_moment(parameter, 0).to(parameter.value.scalar_type());
      EXPECT_TRUE(at::equal(parameter.value.flatten(), expected)) << parameter.name;
    }
  });
  EXPECT_GT(stretches, 0);
}

std::string error_of_loading(const launcher::TrainConfig& config, const fs::path& path) {
  return error_of([&] {
    run_state_job(config, [&](StateRank& rank) { load_checkpoint(path, config, rank.state(), rank.ranks()); });
  });
}

/// Not every pair is a test of its own: a process takes longer to load libtorch than to check one.
const std::array kLayouts = {SavedLayout{1, 1, 1},
                             SavedLayout{2, 1, 1},
                             SavedLayout{4, 1, 1},
                             SavedLayout{3, 1, 2},
                             SavedLayout{1, 1, 2},
                             SavedLayout{2, 2, 2, 1, true},
                             SavedLayout{2, 2, 2},
                             SavedLayout{1, 2, 1, 1, true},
                             SavedLayout{2, 2, 1, 2, true},
                             SavedLayout{2, 1, 1, 1, false, 5},
                             SavedLayout{1, 2, 2, 1, true, 3}};

class Resharding : public testing::TestWithParam<SavedLayout> {};

TEST_P(Resharding, KeepsEveryBit) {
  for (const model::ModelConfig& model : {tiny_llama(), tiny_llama(true), tiny_gpt2()}) {
    const TemporaryFolder folder;
    save(config_of(GetParam(), model), folder.path());
    for (const SavedLayout& to : kLayouts) {
      SCOPED_TRACE(testing::PrintToString(to));
      expect_loads(config_of(to, model), folder / "step-00000007");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Resharding, testing::ValuesIn(kLayouts));

TEST(Checkpoint, OfBf16HasTheMasterValues) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({2, 2, 1, 1, true});
  config.bf16 = true;
  save(config, folder.path());
  expect_loads(config, folder / "step-00000007");
  for (const SavedLayout& layout : {SavedLayout{1, 1, 2}, SavedLayout{2, 2, 1, 1, true, 3}}) {
    config = config_of(layout);
    config.bf16 = true;
    expect_loads(config, folder / "step-00000007");
  }
}

TEST(Checkpoint, IsSharedAmongReplicas) {
  const TemporaryFolder folder;
  save(config_of({1, 2, 1}), folder.path());
  const auto first = static_cast<double>(fs::file_size(folder / "step-00000007/rank-00000.safetensors"));
  const auto second = static_cast<double>(fs::file_size(folder / "step-00000007/rank-00001.safetensors"));
  EXPECT_NEAR(first / second, 1, 0.1);
}

TEST(Checkpoint, LeavesNothingButItself) {
  const TemporaryFolder folder;
  save(config_of({2, 1, 1}), folder.path());
  EXPECT_THAT(folder.names(),
              ElementsAre("step-00000007", "step-00000007/checkpoint.json", "step-00000007/rank-00000.safetensors",
                          "step-00000007/rank-00001.safetensors"));
}

TEST(Checkpoint, OfTheSameStepIsReplaced) {
  const TemporaryFolder folder;
  save(config_of({2, 1, 1}), folder.path());
  save(config_of({1, 1, 1}), folder.path());
  EXPECT_THAT(folder.names(),
              ElementsAre("step-00000007", "step-00000007/checkpoint.json", "step-00000007/rank-00000.safetensors"));
  expect_loads(config_of({1, 1, 1}), folder / "step-00000007");
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
  const TemporaryFolder folder;
  save(config_of({}), folder.path());
  launcher::TrainConfig other = config_of({});
  other.model.intermediate = 64;
  EXPECT_THAT(error_of_loading(other, folder / "step-00000007"),
              AllOf(HasSubstr("step-00000007"), HasSubstr("intermediate_size is 48 there, and 64 here")));
}

TEST(Checkpoint, OfAnotherSeedIsRefused) {
  const TemporaryFolder folder;
  save(config_of({}), folder.path());
  launcher::TrainConfig other = config_of({});
  other.seed = 2;
  EXPECT_THAT(error_of_loading(other, folder / "step-00000007"), HasSubstr("begun with seed 1"));
}

class DamagedCheckpoint : public testing::Test {
 protected:
  DamagedCheckpoint() { save(config_, folder_.path()); }
  [[nodiscard]] fs::path part() const { return folder_ / "step-00000007/rank-00001.safetensors"; }
  [[nodiscard]] fs::path manifest() const { return folder_ / "step-00000007/checkpoint.json"; }
  [[nodiscard]] std::string error() const { return error_of_loading(config_, folder_ / "step-00000007"); }
  /// Replaces the first `from` in a file by `to`, which is as long.
  static void replace(const fs::path& path, const std::string& from, const std::string& to) {
    std::ostringstream bytes;  // read_file() refuses weights
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    std::string content = bytes.str();
    const std::size_t place = content.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    content.replace(place, from.size(), to);
    write_file_atomically(path, content);
  }

  TemporaryFolder folder_;
  launcher::TrainConfig config_ = config_of({2, 1, 1});
};

TEST_F(DamagedCheckpoint, LacksAFile) {
  fs::remove(part());
  EXPECT_THAT(error(), AllOf(HasSubstr(part().string()), HasSubstr("delete this checkpoint")));
}

TEST_F(DamagedCheckpoint, HasATruncatedFile) {
  fs::resize_file(part(), fs::file_size(part()) - 4);
  EXPECT_THAT(error(), AllOf(HasSubstr(part().string()), HasSubstr("when it was written")));
}

TEST_F(DamagedCheckpoint, HasAHeaderThatIsNone) {
  replace(part(), "data_offsets", "data_offset_");
  EXPECT_THAT(error(), HasSubstr(part().string()));
}

TEST_F(DamagedCheckpoint, LacksPieces) {
  replace(part(), "lowgear.pieces", "lowgear.nieces");
  EXPECT_THAT(error(), AllOf(HasSubstr(part().string()), HasSubstr("not a file of a checkpoint")));
}

TEST_F(DamagedCheckpoint, HasAPieceOfAnotherParameter) {
  replace(part(), R"(\"name\":\"model.layers.5)", R"(\"name\":\"model.layers.6)");
  EXPECT_THAT(error(), HasSubstr("parameter \"model.layers.5"));
}

TEST_F(DamagedCheckpoint, LacksThePartsBeginning) {
  replace(part(), R"(\"begin\":0,\"end\":)", R"(\"begin\":9,\"end\":)");
  EXPECT_THAT(error(), HasSubstr("elements 0 to 32 of part 0 are missing"));
}

TEST_F(DamagedCheckpoint, HasAPieceBeyondItsPart) {
  replace(part(), R"(\"end\":32})", R"(\"end\":33})");
  EXPECT_THAT(error(), AllOf(HasSubstr(part().string()), HasSubstr("elements 0 to 33 of a part that has 32")));
}

TEST_F(DamagedCheckpoint, HasAPieceThatIsNotAsLongAsItsTensor) {
  replace(part(), R"(\"end\":32})", R"(\"end\":31})");
  EXPECT_THAT(error(), AllOf(HasSubstr(part().string()), HasSubstr("not 31 elements of F32")));
}

TEST_F(DamagedCheckpoint, HasAManifestOfAnotherFormat) {
  replace(manifest(), "lowgear.checkpoint/1", "lowgear.checkpoint/2");
  EXPECT_THAT(error(), AllOf(HasSubstr(manifest().string()), HasSubstr("lowgear.checkpoint/2")));
}

/// With checkpoints after each step.
void run_steps(const launcher::TrainConfig& config, std::int64_t first, std::int64_t last) {
  run_state_job(config, [&](StateRank& rank) {
    CheckpointFolder checkpoints(config, rank.state(), rank.ranks());
    EXPECT_EQ(checkpoints.resume(), first);
    for (std::int64_t step = first + 1; step <= last; ++step) checkpoints.after_step(step, step == last);
  });
}

TEST(CheckpointFolder, AreSavedEverySoOftenAndAtTheEnd) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({2, 1, 1});
  config.checkpoint = folder / "deep/checkpoints";
  config.checkpoint_every = 2;
  config.checkpoint_keep = 3;
  run_steps(config, 0, 9);
  EXPECT_THAT(launcher::complete_checkpoints(*config.checkpoint), ElementsAre(6, 8, 9));
  run_steps(config, 9, 11);
  EXPECT_THAT(launcher::complete_checkpoints(*config.checkpoint), ElementsAre(9, 10, 11));
}

TEST(CheckpointFolder, AreOnlyAtTheEndUnlessAskedFor) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({1, 1, 1});
  config.checkpoint = folder.path();
  run_steps(config, 0, 5);
  EXPECT_THAT(launcher::complete_checkpoints(folder.path()), ElementsAre(5));
}

TEST(CheckpointFolder, HalfWrittenAreIgnoredAndRemoved) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({1, 1, 1});
  config.checkpoint = folder.path();
  run_steps(config, 0, 3);
  fs::copy(folder / "step-00000003", temporary_of(folder / "step-00000004"));
  fs::create_directory(folder / "step-00000005");
  run_steps(config, 3, 5);
  EXPECT_THAT(launcher::complete_checkpoints(folder.path()), ElementsAre(3, 5));
  EXPECT_FALSE(fs::exists(temporary_of(folder / "step-00000004")));
}

TEST(CheckpointFolder, PutRightWhatAnExchangeLeftThatWasCutShort) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({1, 1, 1});
  config.checkpoint = folder.path();
  run_steps(config, 0, 3);
  fs::path aside = temporary_of(folder / "step-00000003");
  aside += ".old";
  fs::rename(folder / "step-00000003", aside);
  run_steps(config, 3, 5);
  EXPECT_THAT(launcher::complete_checkpoints(folder.path()), ElementsAre(3, 5));
  EXPECT_FALSE(fs::exists(aside));
}

TEST(CheckpointFolder, LeaveOtherFilesAlone) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({1, 1, 1});
  config.checkpoint = folder.path();
  config.checkpoint_keep = 1;
  for (const char* name : {"step-1", "step-000000001", "step-abc", "best"}) {
    fs::create_directory(folder / name);
    write_file_atomically(folder / name / "checkpoint.json", "mine");
  }
  run_steps(config, 0, 3);
  for (const char* name : {"step-1", "step-000000001", "step-abc", "best"}) {
    EXPECT_TRUE(fs::exists(folder / name / "checkpoint.json")) << name;
  }
}

TEST(CheckpointFolder, AreOneJobs) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({1, 1, 1});
  config.checkpoint = folder.path();
  launcher::TrainConfig other = config_of({2, 1, 1});
  other.checkpoint = folder.path();
  run_state_job(config, [&](StateRank& rank) {
    CheckpointFolder checkpoints(config, rank.state(), rank.ranks());
    fs::create_directory(temporary_of(folder / "step-00000001"));
    const std::string error = error_of([&] { run_steps(other, 0, 1); });
    EXPECT_THAT(error,
                HasSubstr(fmt::format("{}: another training (process {} on ", folder.path().string(), ::getpid())));
    EXPECT_THAT(error, HasSubstr("writes checkpoints here; wait for it to end, or name another folder"));
    EXPECT_TRUE(fs::exists(temporary_of(folder / "step-00000001"))) << "the other job's";
    checkpoints.after_step(1, true);
    EXPECT_THAT(launcher::complete_checkpoints(folder.path()), ElementsAre(1));
  });
  run_steps(config, 1, 2);
}

TEST(CheckpointFolder, NeedAFolderThatCanBeWrittenTo) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "");
  launcher::TrainConfig config = config_of({2, 1, 1});
  config.checkpoint = folder / "file";
  EXPECT_THAT(error_of([&] { run_steps(config, 0, 1); }), HasSubstr((folder / "file").string()));
}

TEST(CheckpointFolder, DoNotSaveValuesThatAreNoNumbers) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({2, 1, 1});
  config.checkpoint = folder.path();
  config.checkpoint_every = 1;
  try {
    run_state_job(config, [&](StateRank& rank) {
      CheckpointFolder checkpoints(config, rank.state(), rank.ranks());
      checkpoints.after_step(1, false);
      if (rank.place().pp == 1) rank.store().values().narrow(0, 5, 1).fill_(NAN);
      checkpoints.after_step(2, false);
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1"), HasSubstr("not finite numbers"), HasSubstr("step-00000001")));
  }
  EXPECT_THAT(launcher::complete_checkpoints(folder.path()), ElementsAre(1));
}

/// What a job says that cannot write all of its second checkpoint.
std::string error_on_a_full_disk(launcher::TrainConfig config) {
  try {
    run_state_job(config, [&](StateRank& rank) {
      CheckpointFolder checkpoints(config, rank.state(), rank.ranks());
      checkpoints.after_step(1, false);
      rank.ranks().world->all_reduce(at::zeros({1}));
      if (rank.ranks().world->rank() == 0) limit_file_size(20'000);
      checkpoints.after_step(2, false);
    });
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(CheckpointFolder, OnAFullDiskKeepTheLastGoodOne) {
  const TemporaryFolder folder;
  launcher::TrainConfig config = config_of({2, 1, 1});
  config.checkpoint = folder.path();
  config.checkpoint_every = 1;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string error = error_on_a_full_disk(config);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(error, testing::AllOf(HasSubstr("cannot be written"), HasSubstr("last good checkpoint is")));
  EXPECT_THAT(folder.names(), Not(testing::Contains(HasSubstr("step-00000002"))));
  run_steps(config, 1, 2);
}

}  // namespace
}  // namespace lowgear::trainer

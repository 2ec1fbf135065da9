#include "training/launcher/training_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/ordinary_user.h"
#include "base/core/temporary_folder.h"
#include "training/dataset/synthetic_corpus.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/launcher/saved_weights.h"
#include "training/launcher/training_text.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

void open_to_all(const fs::path& folder) { fs::permissions(folder, fs::perms::all); }

void close_to_writing(const fs::path& folder) {
  constexpr fs::perms kWriting = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  fs::permissions(folder, fs::perms::all & ~kWriting);
}

class TrainingCheck : public testing::Test {
 protected:
  TrainingCheck() {
    config_.model = small_gpt2();
    config_.synthetic_tokens = 1000;
    config_.sequence_length = 16;
    config_.steps = 10;
  }
  /// What the check refuses the job with; it must leave everything as it was.
  [[nodiscard]] std::string refusal() const {
    const std::vector<std::string> before = folder_.names();
    const std::string error = error_of([&] { check_training(config_); });
    EXPECT_EQ(folder_.names(), before);
    return error;
  }
  void expect_accepted() const {
    const std::vector<std::string> before = folder_.names();
    EXPECT_NO_THROW(check_training(config_));
    EXPECT_EQ(folder_.names(), before);
  }
  fs::path file(const std::string& name) const {
    write_file_atomically(folder_ / name, "");
    return folder_ / name;
  }
  void save_checkpoint(std::int64_t step, const std::optional<CheckpointData>& data = {}) const {
    CheckpointManifest manifest;
    manifest.step = step;
    manifest.seed = config_.seed;
    manifest.model = config_.model;
    manifest.data = data;
    const fs::path path = *config_.checkpoint / checkpoint_folder_name(step);
    fs::create_directories(path);
    write_file_atomically(path / kManifestName, write_manifest(manifest));
  }

  TemporaryFolder folder_;
  TrainConfig config_;
};

TEST_F(TrainingCheck, AProfileToRepartitionByHasToBeThere) {
  config_.adapt.repartition.emplace();
  config_.adapt.repartition->profile.emplace();
  config_.adapt.repartition->profile->file = folder_ / "none.csv";
  config_.adapt.repartition->profile->blocking_power = "80";
  EXPECT_THAT(refusal(), HasSubstr("none.csv"));
}

TEST_F(TrainingCheck, ProfilesThatTheJobPlansWithAreDoubtedAsByLowgearPlan) {
  const auto profile = [this](const std::string& name, double second_s) {
    std::string csv = "stage,instruction,frequency,time,energy\n";
    for (const auto& [stage, time_s] : {std::pair(0, 0.05), std::pair(1, second_s)}) {
      csv += fmt::format("{0},forward,1410,{1},{2}\n{0},backward,1410,{3},{4}\n", stage, time_s, 300 * time_s,
                         2 * time_s, 600 * time_s);
    }
    write_file_atomically(folder_ / name, csv);
    return folder_ / name;
  };
  config_.parallel.pp = 2;
  config_.adapt.repartition.emplace();
  config_.adapt.repartition->profile.emplace();
  config_.adapt.repartition->profile->blocking_power = "80";
  config_.adapt.repartition->profile->file = profile("right.csv", 0.05);
  EXPECT_THAT(profile_doubts_of(config_), testing::IsEmpty());
  config_.adapt.repartition->profile->file = profile("wrong.csv", 1.5);
  config_.envpipe.emplace();
  config_.envpipe->profile = profile("other.csv", 1.5);
  config_.envpipe->blocking_power = "80";
  EXPECT_THAT(profile_doubts_of(config_),
              testing::ElementsAre(HasSubstr("wrong.csv:4: stage 1: the forward takes 1.5 s"),
                                   HasSubstr("other.csv:4: stage 1: the forward takes 1.5 s")));
}

TEST_F(TrainingCheck, FilesForTheServerHaveToBeThere) {
  config_.server.emplace();
  config_.server->token_file = folder_ / "none.token";
  EXPECT_THAT(refusal(), HasSubstr("none.token: cannot be read"));
  config_.server->token_file = file("empty.token");
  EXPECT_THAT(refusal(), HasSubstr("empty.token: contains no token"));
  config_.server->token_file.reset();
  ::setenv("LOWGEAR_SERVER_TOKEN_FILE", (folder_ / "empty.token").c_str(), 1);
  EXPECT_THAT(refusal(), HasSubstr("empty.token: contains no token"));
  ::unsetenv("LOWGEAR_SERVER_TOKEN_FILE");
  config_.server->ca_file = folder_ / "none.pem";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("none.pem: cannot be read"), HasSubstr("server.ca_file")));
}

TEST_F(TrainingCheck, AcceptsWhatCanBeMade) {
  save(folder_ / "model.safetensors", tensors_of(config_.model));
  config_.weights = folder_.path();
  config_.checkpoint = folder_ / "new/checkpoints/";
  config_.export_folder = folder_ / "other/export/";
  config_.metrics = folder_ / "metrics.jsonl";
  config_.recording = folder_ / "new/recording";
  expect_accepted();
  config_.metrics = "/dev/null";
  expect_accepted();
}

TEST_F(TrainingCheck, OpensTheTokenFiles) {
  config_.synthetic_tokens = 0;
  config_.tokens = {folder_ / "absent.bin"};
  EXPECT_THAT(refusal(), HasSubstr((folder_ / "absent.bin").string() + ": cannot be read"));
  config_.tokens = {file("empty.bin")};
  EXPECT_THAT(refusal(), HasSubstr("no header of a token file"));
}

TEST_F(TrainingCheck, OpensTheHeldOutText) {
  config_.freeze.controller.emplace();
  config_.freeze.controller->held_out = {folder_ / "absent.bin"};
  EXPECT_THAT(refusal(), HasSubstr("absent.bin"));
  dataset::write_synthetic_corpus(folder_ / "held-out.bin", 1000, 3);
  config_.freeze.controller->held_out = {folder_ / "held-out.bin"};
  expect_accepted();
  config_.freeze.controller->log = folder_ / "none/log.jsonl";
  EXPECT_THAT(refusal(), HasSubstr("there is no folder"));
}

TEST_F(TrainingCheck, OpensTheTextOfTheEvaluation) {
  config_.evaluation.emplace();
  config_.evaluation->held_out = {folder_ / "absent.bin"};
  EXPECT_THAT(refusal(), HasSubstr("absent.bin"));
  dataset::write_synthetic_corpus(folder_ / "held-out.bin", 1000, 3);
  config_.evaluation->held_out = {folder_ / "held-out.bin"};
  expect_accepted();
}

TEST_F(TrainingCheck, FitsMadeUpTextToVocabularyAndSequence) {
  config_.synthetic_tokens = 5;
  EXPECT_THAT(refusal(), HasSubstr("5 tokens are too few for a sequence of 16"));
  config_.synthetic_tokens = 1000;
  config_.model.vocabulary = 200;
  EXPECT_THAT(refusal(), HasSubstr("set it to 256 or more"));
}

TEST_F(TrainingCheck, ComparesTheWeightsWithTheModel) {
  config_.weights = folder_ / "absent";
  EXPECT_THAT(refusal(), HasSubstr((folder_ / "absent").string() + ": cannot be read"));
  save(folder_ / "model.safetensors", tensors_of(config_.model));
  config_.weights = folder_.path();
  config_.model.layers = 3;
  EXPECT_THAT(refusal(), HasSubstr("\"transformer.h.2.ln_1.weight\" is missing"));
}

TEST_F(TrainingCheck, ReadsTheNewestCheckpoint) {
  config_.checkpoint = folder_ / "checkpoints";
  save_checkpoint(4);
  expect_accepted();
  config_.seed = 9;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("step-00000004"), HasSubstr("was begun with seed 1")));
  save_checkpoint(8);
  expect_accepted();
  write_file_atomically(*config_.checkpoint / "step-00000008" / kManifestName, "{");
  EXPECT_THAT(refusal(), HasSubstr("step-00000008"));
}

TEST_F(TrainingCheck, RefusesACheckpointOfOtherData) {
  config_.checkpoint = folder_ / "checkpoints";
  save_checkpoint(4, checkpoint_data(TrainingText(config_).sampler(), 40));
  expect_accepted();
  config_.synthetic_tokens = 2000;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("step-00000004"), HasSubstr("was trained on a text of 1000 tokens")));
}

TEST_F(TrainingCheck, RefusesFoldersBelowFiles) {
  const fs::path below = file("file") / "below/folder";
  const std::string what = below.string() + ": " + (folder_ / "file").string() + " is not a folder";
  config_.checkpoint = below;
  EXPECT_THAT(refusal(), AllOf(HasSubstr(what), HasSubstr("name another folder for checkpoints")));
  config_.checkpoint.reset();
  config_.export_folder = below;
  EXPECT_THAT(refusal(), AllOf(HasSubstr(what), HasSubstr("name another folder for the export")));
  config_.export_folder.reset();
  config_.recording = below;
  EXPECT_THAT(refusal(), AllOf(HasSubstr(what), HasSubstr("name another folder for the recording")));
}

TEST_F(TrainingCheck, RefusesALinkThatLeadsNowhere) {
  fs::create_symlink(folder_ / "absent", folder_ / "link");
  config_.checkpoint = folder_ / "link";
  EXPECT_THAT(refusal(), HasSubstr("is not a folder"));
}

TEST_F(TrainingCheck, RefusesTheKernelsFolders) {
  config_.checkpoint = "/proc/y";
  EXPECT_THAT(refusal(), HasSubstr("/proc/y: the kernel's virtual file systems cannot hold it"));
  config_.checkpoint.reset();
  config_.export_folder = "/proc/y";
  EXPECT_THAT(refusal(), HasSubstr("/proc/y: the kernel's virtual file systems cannot hold it"));
}

TEST_F(TrainingCheck, RefusesFoldersThatMayNotBeWrittenTo) {
  close_to_writing(folder_.path());
  config_.recording = folder_ / "recording";
  const OrdinaryUser user;
  EXPECT_THAT(refusal(), HasSubstr("cannot be written: " + folder_.path().string() + ": Permission denied"));
}

TEST_F(TrainingCheck, AsksWhetherAnExportCanBeMadeWhereItsLinkLeads) {
  const fs::path parent = folder_ / "closed";
  fs::create_directories(parent / "export");
  fs::create_directory(folder_ / "open");
  fs::create_symlink(parent / "export", folder_ / "open" / "link");
  config_.export_folder = folder_ / "open" / "link/";
  expect_accepted();
  close_to_writing(parent);
  open_to_all(folder_ / "open");
  open_to_all(folder_.path());
  {
    const OrdinaryUser user;
    EXPECT_THAT(refusal(), HasSubstr("cannot be written: " + parent.string() + ": Permission denied"));
  }
  open_to_all(parent);
}

TEST_F(TrainingCheck, AsksWhetherMetricsCanBeMadeWhereTheirLinkLeads) {
  fs::create_symlink(folder_ / "absent/metrics.jsonl", folder_ / "link");
  config_.metrics = folder_ / "link";
  EXPECT_THAT(refusal(), HasSubstr("there is no folder " + (folder_ / "absent").string()));
  fs::create_directory(folder_ / "absent");
  expect_accepted();
  fs::create_symlink("circle", folder_ / "circle");
  config_.metrics = folder_ / "circle";
  EXPECT_THAT(refusal(), HasSubstr("circle: cannot be written: Too many levels of symbolic links"));
}

TEST_F(TrainingCheck, RefusesAnExportOverSomethingElse) {
  file("thesis.tex");
  config_.export_folder = folder_.path();
  EXPECT_THAT(refusal(), HasSubstr("contains \"thesis.tex\", which does not belong to an export"));
}

TEST_F(TrainingCheck, RefusesAnExportOverAModelFromElsewhere) {
  fs::create_directory(folder_ / "model");
  file("model/config.json");
  file("model/model.safetensors");
  config_.export_folder = folder_ / "model";
  EXPECT_THAT(refusal(), HasSubstr("contains \"config.json\", which no earlier run lists in lowgear-files.json"));
}

TEST_F(TrainingCheck, RefusesAnExportToTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::create_directory(folder_ / "here");
  fs::current_path(folder_ / "here");
  config_.export_folder = ".";
  EXPECT_THAT(refusal(), HasSubstr((folder_ / "here").string() + ": is the current folder; name a folder inside it"));
  fs::current_path(before);
}

TEST_F(TrainingCheck, RefusesMetricsThatAreNoFileInAFolder) {
  config_.metrics = folder_.path();
  EXPECT_THAT(refusal(), HasSubstr(folder_.path().string() + ": is a folder; name another file for the metrics"));
  config_.metrics = folder_ / "absent/metrics.jsonl";
  EXPECT_THAT(refusal(), HasSubstr("there is no folder " + (folder_ / "absent").string()));
  config_.metrics = file("file") / "metrics.jsonl";
  EXPECT_THAT(refusal(), HasSubstr("is not a folder"));
}

TEST_F(TrainingCheck, RefusesMetricsThatCannotBeReplacedOnGoingOn) {
  fs::create_directories(folder_ / "closed");
  const fs::path metrics = file("closed/metrics.jsonl");
  fs::permissions(metrics, fs::perms::all);
  fs::create_symlink(metrics, folder_ / "link");
  config_.metrics = folder_ / "link";
  config_.checkpoint = folder_ / "checkpoints";
  fs::create_directory(*config_.checkpoint);
  for (const fs::path& path : {folder_.path(), *config_.checkpoint}) open_to_all(path);
  close_to_writing(folder_ / "closed");
  {
    const OrdinaryUser user;
    expect_accepted();
    save_checkpoint(4);
    EXPECT_THAT(refusal(), HasSubstr("cannot be written: " + (folder_ / "closed").string() + ": Permission denied"));
  }
  open_to_all(folder_ / "closed");
  expect_accepted();
}

}  // namespace
}  // namespace lowgear::launcher

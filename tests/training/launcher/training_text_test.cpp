#include "training/launcher/training_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/dataset/synthetic_corpus.h"

namespace lowgear::launcher {
namespace {

using testing::HasSubstr;

TrainConfig made_up(std::int64_t tokens) {
  TrainConfig config;
  config.model.vocabulary = 256;
  config.synthetic_tokens = tokens;
  config.sequence_length = 16;
  config.microbatches = 2;
  config.microbatch_size = 3;
  config.parallel.dp = 2;
  config.seed = 5;
  return config;
}

std::vector<std::int64_t> first_batch(const TrainConfig& config) {
  const TrainingText text(config);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(12 * 17));
  text.sampler().read(0, {.first = 0, .count = 12}, samples);
  return samples;
}

TEST(TrainingText, IsTheSameMadeUpAsFromItsFile) {
  const TemporaryFolder folder;
  dataset::write_synthetic_corpus(folder / "text.bin", 1000, 5);
  TrainConfig of_file = made_up(0);
  of_file.tokens = {folder / "text.bin"};
  const std::vector<std::int64_t> expected = first_batch(of_file);
  EXPECT_EQ(first_batch(made_up(1000)), expected);
  write_file_atomically(folder / "text.bin", read_file(folder / "text.bin").substr(dataset::kTokenHeaderBytes));
  of_file.token_type = dataset::TokenType::uint16;
  EXPECT_EQ(first_batch(of_file), expected);
}

TEST(TrainingText, HasAllReplicasSamplesInAStep) {
  EXPECT_EQ(TrainingText(made_up(1000)).sampler().options().global_batch, 12);
}

TEST(TrainingText, MadeUpNeedsAVocabularyOfBytesAndASample) {
  TrainConfig config = made_up(16);
  EXPECT_THAT(error_of([&] { (void)TrainingText(config); }), HasSubstr("synthetic text: 16 tokens are too few"));
  config.synthetic_tokens = 17;
  EXPECT_NO_THROW((void)TrainingText(config));
  config.model.vocabulary = 255;
  EXPECT_THAT(error_of([&] { (void)TrainingText(config); }), HasSubstr("model.vocabulary: synthetic text has 256"));
}

TEST(TrainingText, AQuarterOfAStepsSequencesIsRoundedUp) {
  const auto quarter = [](int microbatches, std::int64_t size) {
    TrainConfig config = made_up(1000);
    config.microbatches = microbatches;
    config.microbatch_size = size;
    const TrainConfig held_out = held_out_quarter_config(config, {"held-out.bin"});
    return std::pair(held_out.microbatches, held_out.microbatch_size);
  };
  EXPECT_EQ(quarter(8, 3), std::pair(2, std::int64_t{3}));
  EXPECT_EQ(quarter(1, 24), std::pair(1, std::int64_t{6}));
  EXPECT_EQ(quarter(2, 3), std::pair(1, std::int64_t{2}));
  EXPECT_EQ(quarter(5, 4), std::pair(2, std::int64_t{3}));
  EXPECT_EQ(quarter(1, 1), std::pair(1, std::int64_t{1}));
}

}  // namespace
}  // namespace lowgear::launcher

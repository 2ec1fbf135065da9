#include "report/experiment/experiment_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::experiment {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kArms =
    "arms:\n"
    "  - {name: full clocks}\n"
    "  - {name: planned, settings: [energy.plan=plan.json]}\n";

std::string refusal(const std::string& text) {
  return lowgear::error_of([&] { (void)parse_experiment(text, "e.yaml"); });
}

TEST(ParseExperiment, ReadsEverything) {
  const ExperimentFile file = parse_experiment(
      "train: job.yaml\nseeds: [3, 1]\nblocks_per_seed: 2\ndropped_blocks: 0\nsimulated_gpus: 2xA100\n"
      "recording: true\n" +
          std::string(kArms) +
          "report: {baseline: planned, loss: 2.5, loss_margin_pct: 0.5, price_per_kwh: 0.2, co2_g_per_kwh: 400}\n",
      "e.yaml");
  EXPECT_EQ(file.train, "job.yaml");
  EXPECT_THAT(file.seeds, ElementsAre(3, 1));
  EXPECT_EQ(file.blocks_per_seed, 2);
  EXPECT_EQ(file.dropped_blocks, 0);
  EXPECT_EQ(file.simulated_gpus, "2xA100");
  EXPECT_TRUE(file.recording);
  ASSERT_EQ(file.arms.size(), 2U);
  EXPECT_THAT(file.arms[1].settings, ElementsAre("energy.plan=plan.json"));
  EXPECT_EQ(file.report.baseline, "planned");
  EXPECT_EQ(file.report.co2_g_per_kwh, 400);
}

TEST(ParseExperiment, InventsNoFactors) {
  const ExperimentFile file = parse_experiment("train: j\nseeds: [1]\n" + std::string(kArms), "e.yaml");
  EXPECT_FALSE(file.report.price_per_kwh);
  EXPECT_FALSE(file.report.co2_g_per_kwh);
  EXPECT_FALSE(file.report.loss);
  EXPECT_EQ(file.report.baseline, "full clocks");
  EXPECT_EQ(file.dropped_blocks, 1);
}

TEST(ParseExperiment, RefusesWithFileLineAndColumn) {
  const std::string head = "train: job.yaml\nseeds: [1]\n";
  EXPECT_THAT(refusal("seeds: [1]\n"), HasSubstr("e.yaml:1:1"));
  EXPECT_THAT(refusal(head + "sed: 1\n" + kArms), HasSubstr("e.yaml:3:1"));
  EXPECT_THAT(refusal("train: j\nseeds: [1, 1]\n" + std::string(kArms)), HasSubstr("e.yaml:2:12: seeds[1]: seed 1"));
  EXPECT_THAT(refusal("train: j\nseeds: []\n" + std::string(kArms)), HasSubstr("e.yaml:2:8"));
  EXPECT_THAT(refusal("train: j\nseeds: [many]\n" + std::string(kArms)), HasSubstr("e.yaml:2:9"));
  EXPECT_THAT(refusal(head + "arms:\n  - {name: a}\n"), HasSubstr("there are 1 arms"));
  EXPECT_THAT(refusal(head + "arms:\n  - {name: a}\n  - {name: a}\n"), HasSubstr("e.yaml:5:12: arms[1].name"));
  EXPECT_THAT(refusal(head + "arms:\n  - {name: a}\n  - {name: b, settings: [steps]}\n"),
              HasSubstr("e.yaml:5:26: arms[1].settings[0]: there is no \"=\""));
  EXPECT_THAT(refusal(head + "arms: [{name: a}, {name: b, settings: ['seed=4']}]\n"),
              HasSubstr("\"seed\" is set by the experiment"));
  EXPECT_THAT(refusal(head + "arms: [{name: a}, {name: b, settings: ['checkpoint.folder=x']}]\n"),
              HasSubstr("is set by the experiment"));
  EXPECT_THAT(refusal(head + "arms: [{name: a}, {name: b, settings: ['seeds=4']}]\n"), "no error")
      << "only the trainer knows its settings";
  EXPECT_THAT(refusal(head + kArms + "report: {baseline: none}\n"), HasSubstr("there is no arm \"none\""));
  EXPECT_THAT(refusal(head + kArms + "report: {co2: 4}\n"), HasSubstr("e.yaml:6:10"));
  EXPECT_THAT(refusal(head + kArms + "report: {price_per_kwh: -1}\n"), HasSubstr("e.yaml:6:25"));
  EXPECT_THAT(refusal(head + "dropped_blocks: 1001\n" + kArms), HasSubstr("e.yaml:3:17"));
  EXPECT_THAT(refusal(head + "arms: [{name: \"a\\nb\"}, {name: b}]\n"), HasSubstr("arms[0].name"));
  EXPECT_THAT(refusal("- a\n"), HasSubstr("e.yaml:1:1"));
}

TEST(ParseExperiment, ReportsWhatAnArmsCheckFinds) {
  const auto check = [](const ExperimentFile& file, const ExperimentArm& arm) {
    EXPECT_EQ(file.train, "j");
    if (arm.name == "planned") throw InputError("no such plan");
  };
  EXPECT_EQ(error_of([&] { (void)parse_experiment("train: j\nseeds: [1]\n" + std::string(kArms), "e.yaml", check); }),
            "e.yaml:5:5: arms[1]: no such plan");
}

ExperimentFile experiment(std::size_t arms, std::vector<long long> seeds, int blocks_per_seed, int dropped_blocks) {
  ExperimentFile file;
  for (std::size_t i = 0; i < arms; ++i)
    file.arms.push_back({.name = std::string(1, static_cast<char>('A' + i)), .settings = {}});
  file.seeds = std::move(seeds);
  file.blocks_per_seed = blocks_per_seed;
  file.dropped_blocks = dropped_blocks;
  return file;
}

TEST(Turns, AreInAbbaOrder) {
  std::string order;
  for (const Turn& turn : turns_of(experiment(2, {1, 2}, 1, 1))) {
    EXPECT_EQ(turn.dropped, turn.block == 0);
    EXPECT_EQ(turn.seed, turn.block < 2 ? 1 : 2);
    order += static_cast<char>('A' + turn.arm);
  }
  EXPECT_EQ(order, "ABBABAABABBA");
}

TEST(Turns, EveryArmStandsEvenlyInEveryBlock) {
  const ExperimentFile file = experiment(4, {7, 8, 9}, 2, 0);
  const std::vector<Turn> turns = turns_of(file);
  ASSERT_EQ(turns.size(), 6U * 8U);
  for (int block = 0; block < 6; ++block) {
    std::vector<int> places(4);
    std::vector<int> runs(4);
    for (int i = 0; i < 8; ++i) {
      const Turn& turn = turns[static_cast<std::size_t>(8 * block + i)];
      EXPECT_EQ(turn.number, 8 * block + i);
      EXPECT_EQ(turn.block, block);
      EXPECT_EQ(turn.seed, 7 + block % 3);
      places[turn.arm] += i;
      ++runs[turn.arm];
    }
    EXPECT_THAT(runs, ElementsAre(2, 2, 2, 2));
    EXPECT_THAT(places, ElementsAre(7, 7, 7, 7)) << "steady drift is the same for all arms";
  }
}

ExperimentRecord sample_record() {
  ExperimentFile file;
  file.arms = {{"full", {}}, {"planned", {}}};
  file.seeds = {4, 5};
  ExperimentRecord record{.inputs = "0123", .arms = {"full", "planned"}, .turns = turns_of(file), .report = {}};
  record.report.baseline = "full";
  record.report.loss = 2.5;
  return record;
}

TEST(ExperimentRecord, ReadsWhatItWrites) {
  const ExperimentRecord record = sample_record();
  const std::string text = write_experiment_record(record);
  const ExperimentRecord read = read_experiment_record(text, "experiment.json");
  EXPECT_EQ(write_experiment_record(read), text);
  EXPECT_EQ(read.turns.size(), 12U);
  EXPECT_EQ(read.turns[5].arm, record.turns[5].arm);
  EXPECT_TRUE(read.turns[0].dropped);
  EXPECT_EQ(read.report.loss, 2.5);
  EXPECT_FALSE(read.report.co2_g_per_kwh);
}

TEST(ExperimentRecord, RefusesWhatContradictsItself) {
  const std::string text = write_experiment_record(sample_record());
  const auto refusal = [&text](const std::string& from, const std::string& to) -> std::string {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return lowgear::error_of([&] { (void)read_experiment_record(changed, "experiment.json"); });
  };
  EXPECT_THAT(refusal("lowgear.experiment/1", "lowgear.experiment/9"), HasSubstr("$.format"));
  EXPECT_THAT(refusal("\"arm\": 1", "\"arm\": 2"), HasSubstr(".arm"));
  EXPECT_THAT(refusal("\"turn\": 1", "\"turn\": 7"), HasSubstr("expected turn 1"));
  EXPECT_THAT(refusal("\"loss\": 2.5", "\"loss\": -2.5"), HasSubstr("$.report.loss"));
  EXPECT_THAT(refusal("\"dropped\": true", "\"dropped\": 1"), HasSubstr(".dropped"));
}

TEST(ExperimentRecord, FingerprintsTellTextsAndTheirBordersApart) {
  EXPECT_EQ(fingerprint_of({"a", "b"}), fingerprint_of({"a", "b"}));
  EXPECT_NE(fingerprint_of({"a", "b"}), fingerprint_of({"ab", ""}));
  EXPECT_NE(fingerprint_of({"a"}), fingerprint_of({"b"}));
  EXPECT_EQ(fingerprint_of({}), "cbf29ce484222325") << "the offset basis of FNV-1a";
}

TEST(ExperimentRecord, FoldersOfTurnsSortByName) { EXPECT_EQ(experiment_file_name::turn(7), "turn-0007"); }

}  // namespace

}  // namespace lowgear::experiment

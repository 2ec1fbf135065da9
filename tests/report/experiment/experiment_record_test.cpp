#include "report/experiment/experiment_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::experiment {
namespace {

using ::testing::HasSubstr;

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

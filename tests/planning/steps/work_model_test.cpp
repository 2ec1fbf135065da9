#include "planning/steps/work_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/core/error_of.h"
#include "planning/steps/sample_steps.h"
#include "planning/steps/step_input.h"

namespace lowgear::steps {
namespace {

std::vector<RecordedUnit> units_of(double noise, double slow_worker) {
  const SampleFiles files = sample_files(6, 4, 2, 8, noise);
  const Lengths lengths = read_lengths(files.lengths, "lengths.csv");
  const Trace trace = read_trace(files.trace, "trace.csv");
  std::vector<RecordedUnit> units;
  for (std::size_t step = 0; step < trace.steps.size(); ++step) {
    for (int replica = 0; replica < 4; ++replica) {
      for (int microbatch = 0; microbatch < 8; ++microbatch) {
        for (int stage = 0; stage < 2; ++stage) {
          for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
            const double factor = replica == 1 && stage == 1 ? slow_worker : 1;
            units.push_back({replica, stage, kind,
                             lengths.steps[step].amounts[static_cast<std::size_t>(replica * 8 + microbatch)],
                             factor * trace.steps[step].time_s[trace.unit(replica, stage, kind, microbatch)]});
          }
        }
      }
    }
  }
  return units;
}

TEST(WorkModel, FindsTheCoefficientsThatMadeTheTimes) {
  const WorkModel model = WorkModel::fit(units_of(0, 1));
  const WorkCoefficients& backward = model.cells().at({1, OpKind::backward});
  EXPECT_NEAR(backward.constant_s, 2.2 * kConstantS, 1e-9);
  EXPECT_NEAR(backward.linear_s, 2.2 * kLinearS, 1e-12);
  EXPECT_NEAR(backward.attention_s, 2.2 * kAttentionS, 1e-16);
  EXPECT_LT(model.error(), 1e-7);
  EXPECT_TRUE(model.workers().empty());
}

TEST(WorkModel, StatesStandardErrorsThatCoverTheTruth) {
  const WorkModel model = WorkModel::fit(units_of(0.02, 1));
  EXPECT_NEAR(model.error(), 0.02, 0.004);
  int within = 0;
  for (const auto& [cell, of_cell] : model.cells()) {
    const double factor = (1 + 0.1 * cell.first) * (cell.second == OpKind::backward ? 2 : 1);
    EXPECT_GT(of_cell.linear_error_s, 0);
    EXPECT_LT(of_cell.linear_error_s, 0.05 * of_cell.linear_s);
    if (std::abs(of_cell.linear_s - factor * kLinearS) < 2 * of_cell.linear_error_s) ++within;
  }
  EXPECT_GE(within, 3);
}

TEST(WorkModel, TellsASlowWorkerFromLongDocuments) {
  const WorkModel model = WorkModel::fit(units_of(0.01, 1.5));
  EXPECT_NEAR(model.worker(1, 1, OpKind::forward), 1.5, 0.02);
  EXPECT_NEAR(model.worker(0, 1, OpKind::forward), 1, 0.01);
  const Amounts amounts{4000, 6e6};
  EXPECT_NEAR(model.time_s(1, 1, OpKind::forward, amounts) / model.time_s(2, 1, OpKind::forward, amounts), 1.5, 0.03);
}

TEST(WorkModel, IsWhatItsFileStates) {
  const WorkModel model = WorkModel::fit(units_of(0.01, 1.5));
  const profile::StageProfile profile = sample_profile(2);
  const std::string text = write_work_file(model, profile);
  const WorkModel read = read_work_file(text, "profile.csv.work.json", profile);
  EXPECT_EQ(write_work_file(read, profile), text);
  const Amounts amounts{4000, 6e6};
  EXPECT_EQ(read.time_s(1, 1, OpKind::backward, amounts), model.time_s(1, 1, OpKind::backward, amounts));
  EXPECT_EQ(read.most(), model.most());
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string wrong = text;
    wrong.replace(wrong.find(from), from.size(), to);
    return error_of([&] { (void)read_work_file(wrong, "work.json", profile); });
  };
  EXPECT_THAT(error("lowgear.work/1", "lowgear.work/2"), testing::HasSubstr("work.json"));
  EXPECT_THAT(error("\"forward\"", "\"sideways\""), testing::HasSubstr("$.coefficients[0].kind: no kind of op"));
  EXPECT_THAT(error("\"fit_error\": ", "\"fit_error\": -"), testing::HasSubstr("$.fit_error"));
  for (const std::string member : {"constant_s", "factor", "most_tokens", "most_squared_tokens"}) {
    const std::string key = '"' + member + "\": ";
    EXPECT_THAT(error(key, key + "1e30, \"unknown\": "),
                testing::AllOf(testing::StartsWith("work.json"), testing::HasSubstr(member)));
  }
  EXPECT_THAT(error("\"clock_mhz\": ", "\"clock_mhz\": 9"),
              testing::HasSubstr("work.json: $.coefficients[0].clock_mhz: the highest clock of the profile is"));
  Json json = Json::parse(text);
  for (const char* const member : {"constant_s", "linear_s", "attention_s"}) json["coefficients"][1][member] = 0;
  EXPECT_THAT(error_of([&] { (void)read_work_file(json.dump(), "work.json", profile); }),
              testing::HasSubstr("$.coefficients[1]: a unit of the most tokens takes 0 s"));
  json["coefficients"][1] = json["coefficients"][0];
  EXPECT_THAT(error_of([&] { (void)read_work_file(json.dump(), "work.json", profile); }),
              testing::HasSubstr("$.coefficients[1]: its stage and kind are those of an earlier row"));
}

TEST(WorkModel, PredictsUnitsOfUnknownLengthsFromTheOthers) {
  const std::vector<RecordedUnit> units = units_of(0.01, 1.5);
  std::vector<MicrobatchTimes> microbatches;
  for (std::size_t i = 0; i < units.size(); i += 4) {
    const auto first = units.begin() + static_cast<std::ptrdiff_t>(i);
    microbatches.push_back({units[i].replica, {first, first + 4}, i < units.size() / 2});
  }
  const InferredAmounts before = infer_amounts(microbatches);
  EXPECT_NEAR(before.model.worker(1, 1, OpKind::forward), 1.5, 0.05);
  // The prediction of a unit does not change with its own time, where the fit has not seen it.
  RecordedUnit& last = microbatches.back().units.back();
  const auto predicted_s = [&](const InferredAmounts& inferred) {
    return inferred.model.time_s(last.replica, last.stage, last.kind, inferred.amounts.back().back());
  };
  const double own_s = last.time_s;
  EXPECT_NEAR(predicted_s(before), own_s, 0.05 * own_s);
  last.time_s *= 3;
  EXPECT_NEAR(predicted_s(infer_amounts(microbatches)), predicted_s(before), 1e-9);
}

}  // namespace
}  // namespace lowgear::steps

#include "planning/steps/recorded_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/core/error_of.h"
#include "planning/steps/sample_steps.h"

namespace lowgear::steps {
namespace {

using testing::HasSubstr;

constexpr int kRecordedSteps = 9, kRecordedReplicas = 2, kRecordedStages = 2, kRecordedTensorRanks = 2,
              kRecordedMicrobatches = 4;
constexpr std::array kClocksMhz{1410, 1200, 1005};
const profile::ProfilingOptions kAllIterations{.skipped_iterations = 0};

Lengths sample_lengths() {
  return read_lengths(
      sample_files(kRecordedSteps, kRecordedReplicas, kRecordedStages, kRecordedMicrobatches, 0).lengths,
      "lengths.csv");
}

/// Three steps at each clock, whose times grow by the clock's factor; the first step of each settles, and takes long.
std::vector<profile::Recording> recordings_of(const Lengths& lengths) {
  std::vector<profile::Recording> recordings;
  for (int rank = 0; rank < kRecordedStages * kRecordedReplicas * kRecordedTensorRanks; ++rank) {
    profile::Recording& recording = recordings.emplace_back();
    recording.rank = rank;
    const int stage = rank / (kRecordedReplicas * kRecordedTensorRanks);
    const int replica = rank / kRecordedTensorRanks % kRecordedReplicas;
    double now_s = 0;
    for (const Lengths::Step& step : lengths.steps) {
      const int clock_mhz = kClocksMhz.at(static_cast<std::size_t>(step.number / 3));
      const bool settling = step.number % 3 == 0;
      for (int microbatch = 0; microbatch < kRecordedMicrobatches; ++microbatch) {
        const Amounts& amounts = step.amounts[static_cast<std::size_t>(replica * kRecordedMicrobatches + microbatch)];
        for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
          const double factor = (stage + 1) * (kind == OpKind::backward ? 2 : 1) * (settling ? 7 : 1);
          const double time_s = factor * (0.3 + 0.7 * 1410 / clock_mhz) *
                                (kConstantS + kLinearS * amounts.tokens + kAttentionS * amounts.squared_tokens);
          recording.units.push_back({step.number, stage, kind, microbatch, now_s, now_s + time_s, clock_mhz, settling});
          now_s += time_s;
        }
      }
    }
  }
  return recordings;
}

TEST(RecordedWork, FindsTheTimesOfTheHighestClockFromAllClocks) {
  const Lengths lengths = sample_lengths();
  std::vector<profile::Recording> recordings = recordings_of(lengths);
  const WorkModel model = fit_recorded_work(recordings, lengths, kAllIterations);
  const WorkCoefficients& backward = model.cells().at({1, OpKind::backward});
  EXPECT_NEAR(backward.constant_s, 4 * kConstantS, 0.01 * 4 * kConstantS);
  EXPECT_NEAR(backward.linear_s, 4 * kLinearS, 0.01 * 4 * kLinearS);
  EXPECT_NEAR(backward.attention_s, 4 * kAttentionS, 0.01 * 4 * kAttentionS);
  EXPECT_LT(model.error(), 1e-3);
  EXPECT_TRUE(model.workers().empty());
}

TEST(RecordedWork, IsThatOfTheGpusOwnClockWhereNoneWasRequested) {
  const Lengths lengths = sample_lengths();
  std::vector<profile::Recording> recordings = recordings_of(lengths);
  for (profile::Recording& recording : recordings) {
    std::erase_if(recording.units, [](const auto& unit) { return unit.clock_mhz != kClocksMhz.front(); });
    for (profile::RecordedUnit& unit : recording.units) unit.clock_mhz = 0;
  }
  EXPECT_THAT(error_of([&] { (void)fit_recorded_work(recordings, lengths, kAllIterations); }),
              HasSubstr("nothing to fit lengths to; record with clocks, or name the clock that the GPU ran at"));
  const WorkModel model = fit_recorded_work(recordings, lengths, {.skipped_iterations = 0, .own_clock_mhz = 1410});
  EXPECT_NEAR(model.cells().at({0, OpKind::forward}).linear_s, kLinearS, 0.01 * kLinearS);
}

/// A profile's row is then a mean over units that differ in nothing but noise.
TEST(RecordedWork, MakesUnitsOfOneClockAlike) {
  const Lengths lengths = sample_lengths();
  std::vector<profile::Recording> recordings = recordings_of(lengths);
  (void)fit_recorded_work(recordings, lengths, kAllIterations);
  std::map<std::tuple<int, OpKind, int>, double> row_s;
  double least = 1, most = 1;
  for (const profile::Recording& recording : recordings) {
    for (const profile::RecordedUnit& unit : recording.units) {
      if (unit.settling) continue;
      least = std::min(least, unit.work);
      most = std::max(most, unit.work);
      const double time_s = (unit.end_s - unit.start_s) / unit.work;
      const auto row = row_s.emplace(std::tuple(unit.stage, unit.kind, unit.clock_mhz), time_s).first;
      EXPECT_NEAR(time_s, row->second, 2e-3 * row->second);
    }
  }
  EXPECT_LT(least, 0.7);
  EXPECT_GT(most, 1.5);
}

/// A constant cannot be told from a part that is linear in a number of tokens that never changes.
TEST(RecordedWork, OfTheSameNumberOfTokensHasNoConstant) {
  Lengths lengths = sample_lengths();
  for (Lengths::Step& step : lengths.steps) {
    for (Amounts& amounts : step.amounts) amounts.tokens = 8192;
  }
  std::vector<profile::Recording> recordings = recordings_of(lengths);
  const WorkModel model = fit_recorded_work(recordings, lengths, kAllIterations);
  const WorkCoefficients& forward = model.cells().at({0, OpKind::forward});
  EXPECT_EQ(forward.constant_s, 0);
  EXPECT_NEAR(forward.linear_s, kLinearS + kConstantS / 8192, 0.01 * kLinearS);
}

TEST(RecordedWork, LeavesOutStepsWhoseLengthsAreNotStated) {
  Lengths lengths = sample_lengths();
  std::vector<profile::Recording> recordings = recordings_of(lengths);
  EXPECT_EQ(leave_out_unstated(recordings, lengths), "");
  lengths.steps[4].fault = "microbatch 0 of replica 1 is missing";
  lengths.steps.pop_back();
  for (profile::Recording& recording : recordings) {
    for (profile::RecordedUnit& unit : recording.units) {
      if (unit.iteration == 4 || unit.iteration == 8) unit.end_s += 1;
    }
  }
  EXPECT_EQ(leave_out_unstated(recordings, lengths),
            "lengths.csv does not state the lengths of 2 of 6 recorded steps, which are left out: step 4: microbatch 0 "
            "of replica 1 is missing");
  const WorkModel model = fit_recorded_work(recordings, lengths, kAllIterations);
  EXPECT_LT(model.error(), 1e-3) << "the times of steps that are left out do not count";
  for (const profile::Recording& recording : recordings) {
    for (const profile::RecordedUnit& unit : recording.units) {
      EXPECT_EQ(unit.settling, unit.iteration % 3 == 0 || unit.iteration == 4 || unit.iteration == 8);
    }
  }
  lengths.steps.clear();
  EXPECT_THAT(error_of([&] { (void)leave_out_unstated(recordings, lengths); }),
              HasSubstr("does not state the lengths of any recorded step: step 1: lengths.csv has no row of it"));
}

TEST(RecordedWork, RefusesWhatItCannotKnow) {
  Lengths lengths = sample_lengths();
  std::vector<profile::Recording> recordings = recordings_of(lengths);
  const auto error = [&] { return error_of([&] { (void)fit_recorded_work(recordings, lengths, kAllIterations); }); };
  lengths.steps[4].fault = "microbatch 0 of replica 1 is missing";
  EXPECT_THAT(error(), HasSubstr("in step 4 was recorded, and lengths.csv does not state its lengths: microbatch 0 of "
                                 "replica 1 is missing; record again"));
  lengths = sample_lengths();
  lengths.steps.pop_back();
  EXPECT_THAT(error(), HasSubstr("in step 8 was recorded"));
  lengths = sample_lengths();
  recordings.pop_back();
  EXPECT_THAT(error(), HasSubstr("3 ranks of stage 1 were recorded, and lengths.csv has 2 replicas"));
  recordings = recordings_of(lengths);
  EXPECT_THAT(error_of([&] { (void)fit_recorded_work(recordings, lengths, {.skipped_iterations = kRecordedSteps}); }),
              HasSubstr("nothing to fit"));
}

}  // namespace
}  // namespace lowgear::steps

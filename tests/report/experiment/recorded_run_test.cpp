#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/core/error.h"
#include "report/experiment/arm_comparison.h"
#include "report/experiment/run_record.h"

namespace lowgear::experiment {
namespace {

using profile::EnergySample;
using profile::Recording;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A rank whose GPU draws `power_w` all the time, with a sample every 0.4 s, and iterations of 0.9 s every second.
Recording rank_of(int rank, double power_w, int iterations) {
  Recording recording;
  recording.rank = rank;
  recording.gpu_uuid = "GPU-" + std::to_string(rank);
  for (int i = 0; i < iterations; ++i) recording.iterations.push_back({i, 1.0 + i, 1.9 + i});
  for (int i = 0; 0.4 * i < iterations + 2; ++i) {
    EnergySample sample;
    sample.time_s = 0.4 * i;
    sample.energy_j = 1000 + power_w * sample.time_s;
    sample.power_w = power_w;
    sample.sm_mhz = 1410;
    sample.temperature_c = 50 + 10 * rank;
    recording.samples.push_back(sample);
  }
  return recording;
}

TEST(RecordedRun, AddsUpGpusIterationByIteration) {
  const std::vector<Recording> ranks{rank_of(0, 100, 3), rank_of(1, 200, 3)};
  const RunRecord run = recorded_run(ranks, "rec");
  ASSERT_EQ(run.steps.size(), 3U);
  EXPECT_EQ(run.unit, WorkUnit::iteration);
  EXPECT_EQ(run.basis, Basis::measured);
  EXPECT_NEAR(run.steps[0].time_s, 1, 1e-12) << "until the next one";
  EXPECT_NEAR(*run.steps[0].energy_j, 300, 1e-9);
  EXPECT_NEAR(run.steps[2].time_s, 0.9, 1e-12) << "the last one until its end";
  EXPECT_NEAR(*run.steps[2].energy_j, 270, 1e-9);
  EXPECT_EQ(run.sm_clock_mhz, 1410);
  EXPECT_EQ(run.temperature_c, 55);
  EXPECT_TRUE(run.warnings.empty());
}

TEST(RecordedRun, TakesAsLongAsTheJobWhereIterationsOfRanksAlternateInLength) {
  std::vector<Recording> ranks{rank_of(0, 100, 9), rank_of(1, 100, 9)};
  ranks[0].iterations = {{0, 1, 2}, {1, 2, 5}, {2, 5, 6}, {3, 6, 9}};
  ranks[1].iterations = {{0, 1, 4}, {1, 4, 5}, {2, 5, 8}, {3, 8, 8.9}, {4, 9, 9.5}};
  const RunRecord run = recorded_run(ranks, "rec");
  ASSERT_EQ(run.steps.size(), 4U) << "that both have";
  EXPECT_NEAR(all_sums(run).time_s, 8, 1e-12) << "from the first begin to the last end";
  EXPECT_NEAR(all_sums(run).energy_j, 1600, 1e-9);
}

TEST(RecordedRun, AWaitForRanksThatBeginLateChangesNoOtherIteration) {
  std::vector<Recording> ranks{rank_of(0, 100, 9), rank_of(1, 100, 9)};
  ranks[0].iterations = {{0, 1, 8}, {1, 8, 9}, {2, 9, 10}};
  ranks[1].iterations = {{0, 6, 7.9}, {1, 7.9, 8.9}, {2, 8.9, 9.9}};
  const RunRecord run = recorded_run(ranks, "rec");
  ASSERT_EQ(run.steps.size(), 3U);
  EXPECT_NEAR(run.steps[0].time_s, 7, 1e-12) << "since the first rank began";
  EXPECT_NEAR(run.steps[1].time_s, 1, 1e-12);
  EXPECT_NEAR(run.steps[2].time_s, 1, 1e-12);
}

TEST(RecordedRun, NamesGpusInTheTimeOfItsIterations) {
  std::vector<Recording> ranks{rank_of(0, 100, 3), rank_of(1, 100, 3)};
  ranks[1].clock = {"boot", 50};
  const RunRecord run = recorded_run(ranks, "rec");
  ASSERT_EQ(run.gpus.size(), 1U) << "the time of the other is not known";
  EXPECT_EQ(run.gpus[0].uuid, "GPU-1");
  EXPECT_EQ(run.gpus[0].boot_id, "boot");
  ASSERT_EQ(run.gpus[0].uses.size(), 3U);
  EXPECT_EQ(run.gpus[0].uses.front().begin_s, 51);
  EXPECT_EQ(run.gpus[0].uses.front().end_s, 52) << "until the next one";
  EXPECT_EQ(run.gpus[0].uses.back().step, 2);
  EXPECT_EQ(run.gpus[0].uses.back().end_s, 53.9);
}

TEST(RecordedRun, IsInvalidWhereARankSaysSo) {
  std::vector<Recording> ranks{rank_of(0, 100, 2), rank_of(1, 100, 2)};
  EXPECT_EQ(recorded_run(ranks, "rec").invalid, "");
  ranks[0].invalid = "short kernels";
  EXPECT_EQ(recorded_run(ranks, "rec").invalid, "short kernels");
}

TEST(RecordedRun, CountsASharedGpuOnce) {
  std::vector<Recording> ranks{rank_of(0, 100, 2), rank_of(1, 100, 2)};
  ranks[1].gpu_uuid = ranks[0].gpu_uuid;
  const RunRecord run = recorded_run(ranks, "rec");
  EXPECT_NEAR(*run.steps[0].energy_j, 100, 1e-9);
  EXPECT_THAT(run.warnings,
              ElementsAre(HasSubstr("rec: ranks 0, 1 ran on one GPU (GPU-0), whose energy is counted once")));
}

TEST(RecordedRun, NamesRanksThatHaveNoRecording) {
  std::vector<Recording> ranks{rank_of(0, 100, 2), rank_of(2, 100, 2)};
  for (Recording& rank : ranks) rank.world_size = 4;
  EXPECT_THAT(recorded_run(ranks, "rec").warnings,
              ElementsAre(HasSubstr("ranks 1, 3 of 4 have no recording: time and energy are those of the other 2")));
  ranks[1].world_size = 8;
  EXPECT_THROW((void)recorded_run(ranks, "rec"), InputError);
}

TEST(RecordedRun, SaysWhatWasNotComparedWithPowerReadings) {
  std::vector<Recording> ranks{rank_of(0, 100, 3), rank_of(1, 100, 3)};
  for (EnergySample& sample : ranks[1].samples) sample.power_w.reset();
  EXPECT_THAT(recorded_run(ranks, "rec").warnings,
              ElementsAre(HasSubstr("rec: energies of rank 1 were not compared with power readings")));
}

TEST(RecordedRun, LeavesOutIterationsInATimeWhoseEnergyIsNotKnown) {
  std::vector<Recording> ranks{rank_of(0, 100, 60)};
  for (std::size_t i = 0; i < ranks[0].samples.size(); ++i) {
    EnergySample& sample = ranks[0].samples[i];
    sample.power_w = i % 2 == 0 ? 90 : 110;
    sample.energy_j = *sample.energy_j - 20 * std::clamp(sample.time_s - 20, 0.0, 15.0);
  }
  const RunRecord run = recorded_run(ranks, "rec");
  EXPECT_LT(run.steps.size(), 50);
  EXPECT_GT(run.steps.size(), 30);
  double power_w = 0;
  for (const RunStep& step : run.steps) power_w += *step.energy_j / step.time_s / static_cast<double>(run.steps.size());
  EXPECT_NEAR(power_w, 100, 1.5);
  EXPECT_THAT(run.warnings, ElementsAre(HasSubstr("the energies of this time are left out"),
                                        HasSubstr("of 60 iterations have no energy that is known")));
}

TEST(RecordedRun, UsesPowerReadingsWhereACounterCannotBeRight) {
  std::vector<Recording> ranks{rank_of(0, 100, 20)};
  for (EnergySample& sample : ranks[0].samples) sample.energy_j = 1000 + (*sample.energy_j - 1000) / 2;
  const RunRecord run = recorded_run(ranks, "rec");
  EXPECT_NEAR(*run.steps[0].energy_j, 100, 1e-9);
  EXPECT_THAT(run.warnings, ElementsAre(HasSubstr("its energies are integrated power readings, known to 50 %")));
}

TEST(RecordedRun, LeavesOutIterationsOutsideOfTheSamples) {
  std::vector<Recording> ranks{rank_of(0, 100, 4)};
  std::erase_if(ranks[0].samples,
                [](const EnergySample& sample) { return sample.time_s < 1.5 || sample.time_s > 4.5; });
  const RunRecord run = recorded_run(ranks, "rec");
  EXPECT_EQ(run.steps.size(), 2U);
  EXPECT_EQ(run.steps[0].number, 1);
  EXPECT_TRUE(run.has_energy());
  EXPECT_THAT(run.warnings, testing::ElementsAre(testing::HasSubstr("2 of 4 iterations at its ends")));
}

TEST(RecordedRun, DoesNotDifferFromItselfWithoutSomeEnergies) {
  Recording whole = rank_of(0, 100, 20);
  whole.iterations[0].start_s = 0.1;  // it takes longer than the others
  Recording begins_later = whole;
  std::erase_if(begins_later.samples, [](const EnergySample& sample) { return sample.time_s < 0.2; });
  Recording ends_earlier = whole;
  std::erase_if(ends_earlier.samples, [](const EnergySample& sample) { return sample.time_s > 19.5; });
  Recording has_gap = whole;
  has_gap.set_aside.push_back({9.5, 9.6});
  const auto arm = [](const std::string& name, const Recording& recording) {
    return Arm{name, {{recorded_run(std::vector{recording}, name), {}, {}}}};
  };
  for (const Recording& other : {begins_later, ends_earlier, has_gap}) {
    const ArmComparison comparison = compare_arms({arm("whole", whole), arm("other", other)}, {});
    EXPECT_LT(comparison.common_work, 20);
    ASSERT_EQ(comparison.arms[1].quantities.size(), 4U);
    for (const ArmQuantity& quantity : comparison.arms[1].quantities) EXPECT_EQ(quantity.difference_pct->mean, 0);
  }
}

TEST(RecordedRun, NumbersItsIterationsSinceItBegan) {
  std::vector<Recording> ranks{rank_of(0, 100, 4), rank_of(1, 100, 4), rank_of(0, 100, 2), rank_of(1, 100, 2)};
  for (Recording& rank : ranks) {
    for (auto& iteration : rank.iterations) iteration.number += 500;
  }
  ranks[1].iterations.erase(ranks[1].iterations.begin());
  ranks[2].part = ranks[3].part = 1;
  const RunRecord run = recorded_run(ranks, "rec");
  std::vector<std::int64_t> numbers;
  for (const RunStep& step : run.steps) numbers.push_back(step.number);
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3, 4, 5));
}

TEST(RecordedRun, WithoutACounterThereIsNoEnergy) {
  std::vector<Recording> ranks{rank_of(0, 100, 2), rank_of(1, 100, 2)};
  for (EnergySample& sample : ranks[1].samples) sample.energy_j.reset();
  const RunRecord run = recorded_run(ranks, "rec");
  EXPECT_EQ(run.steps.size(), 2U);
  EXPECT_FALSE(run.has_energy());
}

TEST(RecordedRun, RefusesWhatDoesNotAddUp) {
  std::vector<Recording> ranks{rank_of(0, 100, 2), rank_of(1, 100, 2)};
  ranks[1].simulated = true;
  EXPECT_THROW((void)recorded_run(ranks, "rec"), InputError);
  ranks[1].simulated = false;
  ranks[1].iterations.clear();
  EXPECT_THROW((void)recorded_run(ranks, "rec"), InputError);
  EXPECT_THROW((void)recorded_run({}, "rec"), InputError);
}

TEST(RecordedRun, TokensReplaceIterations) {
  const RunRecord run = with_tokens(recorded_run(std::vector{rank_of(0, 100, 2)}, "rec"), 4096);
  EXPECT_EQ(run.unit, WorkUnit::token);
  EXPECT_EQ(run.steps[1].work, 4096);
}

}  // namespace
}  // namespace lowgear::experiment

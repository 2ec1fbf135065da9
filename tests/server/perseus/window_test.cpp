#include "server/perseus/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "server/perseus/test_support.h"

namespace lowgear::server::perseus {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result result(int rank, std::vector<double> times, std::vector<double> energies) {
  Result each;
  each.rank = rank;
  each.iteration_time_s = std::move(times);
  each.iteration_energy_j = std::move(energies);
  return each;
}

std::string refusal(const Layout& layout, const std::vector<Result>& results) {
  return lowgear::error_of([&] { static_cast<void>(condense(layout, results, 0.1)); });
}

/// Ranks in an order in which no stage's ranks are next to each other, and rank 0 is of the last stage.
const TestJobShape kScattered = {2, 2, 1, [](int rank) { return std::array{1 - rank % 2, rank / 2, 0}; }};

TEST(PerseusWindow, StagesAreFoundByTheirPipelineRank) {
  const Layout layout = stage_layout(test_job(kScattered), test_ranks(kScattered));
  EXPECT_THAT(layout.position_of_rank, ElementsAre(1, 0, 1, 0));
  ASSERT_EQ(layout.positions.size(), 2U);
  EXPECT_EQ(layout.positions[0].pp_rank, 0);
  EXPECT_EQ(layout.positions[1].pipe_schedule, test_pipe_schedule(2, 1));
}

TEST(PerseusWindow, AStageIsAsSlowAsItsSlowestRankAndUsesWhatAllUse) {
  const Layout layout = stage_layout(test_job(kScattered), test_ranks(kScattered));
  std::vector<Result> results = {result(0, {9, 1, 4}, {9, 10, 20}), result(1, {9, 7, 7}, {9, 1, 1}),
                                 result(2, {9, 3, 2}, {9, 30, 40}), result(3, {9, 8, 6}, {9, 2, 2})};
  results[0].time_s[Instruction::forward] = {{9, 9}, {1, 4}, {2, 2}};
  results[2].time_s[Instruction::forward] = {{9, 9}, {3, 3}, {1, 6}};
  results[0].energy_j[Instruction::forward] = {{9, 9}, {1, 1}, {1, 1}};
  results[2].energy_j[Instruction::forward] = {{9, 9}, {2, 2}, {4, 4}};
  const std::vector<Window> windows = condense(layout, results, 0.1);
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_DOUBLE_EQ(windows[1].iteration_time_s, 3.5);   // longest of (1, 3) and of (4, 2)
  EXPECT_DOUBLE_EQ(windows[1].iteration_energy_j, 50);  // 40 and 60
  EXPECT_DOUBLE_EQ(windows[1].power_w, (40 / 3.0 + 15) / 2);
  EXPECT_EQ(windows[1].forward, (Unit{2, (3 + 4 + 2 + 6) / 4.0, (3 + 3 + 5 + 5) / 4.0}));
  EXPECT_EQ(windows[1].backward, std::nullopt);
  EXPECT_DOUBLE_EQ(windows[0].iteration_time_s, 7.5);
}

TEST(PerseusWindow, RefusesEnergyThatNoGpuDraws) {
  const TestJobShape one = {1, 1, 1, nullptr};
  const Layout layout = rank_layout(test_job(one), test_ranks(one));
  EXPECT_THAT(refusal(layout, {result(0, {1, 1, 1}, {400, 400, 400'000})}),
              AllOf(HasSubstr("result of rank 0: the energy of an iteration shows 400000 J in 1 s"),
                    HasSubstr("report seconds, and the joules of one GPU")));
}

TEST(PerseusWindow, TheFirstIterationIsNeverCounted) {
  const TestJobShape one = {1, 1, 1, nullptr};
  const Layout layout = rank_layout(test_job(one), test_ranks(one));
  const std::vector<Result> results = {result(0, {100, 1, 1, 3}, {100, 1, 1, 1})};
  EXPECT_DOUBLE_EQ(condense(layout, results, 0).front().iteration_time_s, 5.0 / 3);
  EXPECT_DOUBLE_EQ(condense(layout, results, 0.75).front().iteration_time_s, 3);
}

TEST(PerseusWindow, EnergiesThatARankLeavesOutAreUnknown) {
  const Layout layout = stage_layout(test_job(kScattered), test_ranks(kScattered));
  std::vector<Result> results;
  for (const RankInfo& rank : test_ranks(kScattered)) {
    results.push_back(test_result(rank, std::vector<int>(rank.pipe_schedule.size(), 1410), 0, rank.rank != 2));
  }
  const std::vector<Window> windows = condense(layout, results, 0.1);
  EXPECT_TRUE(windows[0].forward->energy_j.has_value());
  EXPECT_FALSE(windows[1].forward->energy_j.has_value());
  EXPECT_DOUBLE_EQ(windows[1].forward->per_iteration, kTestMicrobatches);
}

TEST(PerseusWindow, WhatCannotBePutTogetherIsRefused) {
  const Layout layout = stage_layout(test_job(kScattered), test_ranks(kScattered));
  std::vector<Result> results;
  for (int rank = 0; rank < 4; ++rank) results.push_back(result(rank, {1, 1}, {1, 1}));
  EXPECT_EQ(refusal(layout, results), "no error");
  auto other = results;
  other[2] = result(2, {1, 1, 1}, {1, 1, 1});
  EXPECT_THAT(refusal(layout, other), HasSubstr("rank 2: 3 iterations, where another rank of its stage has 2"));
  other = results;
  for (auto& each : other) each = result(each.rank, {1}, {1});
  EXPECT_THAT(refusal(layout, other), HasSubstr("1 iterations, of which the first 1 are warm-up"));
  other = results;
  for (auto& each : other) each = result(each.rank, {}, {});
  EXPECT_THAT(refusal(layout, other), HasSubstr("0 iterations"));
  other = results;
  other[1] = result(1, {1, 0}, {1, 1});
  other[3] = result(3, {1, 0}, {1, 1});
  EXPECT_THAT(refusal(layout, other), HasSubstr("took no time"));
  other = results;
  other[2].time_s[Instruction::backward] = {{1}, {1}};
  EXPECT_THAT(refusal(layout, other), HasSubstr("times of backward"));
  other = results;
  other[0].time_s[Instruction::forward] = {{1}, {1}};
  other[2].time_s[Instruction::forward] = {{1}, {1}};
  other[2].energy_j[Instruction::forward] = {{1}, {1, 2}};
  EXPECT_THAT(refusal(layout, other), HasSubstr("rank 2: 2 energies for 1 times of forward"));
}

TEST(PerseusWindow, WindowsAreReadBackToTheLastBit) {
  const std::vector<Window> windows = {{1.0 / 3, 2e-17, 3e8, Unit{6, 0.1, std::nullopt}, std::nullopt},
                                       {0.1 + 0.2, 0, 1, std::nullopt, Unit{1.5, 2.0 / 7, 1e-9}}};
  const Json json = Json::parse(to_json(windows).dump());
  EXPECT_EQ(read_perseus_windows(JsonView(json, "windows")), windows);
}

}  // namespace
}  // namespace lowgear::server::perseus

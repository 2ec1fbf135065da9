#include "estimating/estimator/iteration/pipeline_times.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>

#include "planning/schedule/generators.h"

namespace lowgear::estimator {
namespace {

PipelineCosts equal_stages(int ranks, int microbatches, double forward_s, double backward_s) {
  const auto stages = static_cast<std::size_t>(ranks);
  return {.ranks = ranks,
          .microbatches = microbatches,
          .forward_s = std::vector<double>(stages, forward_s),
          .backward_s = std::vector<double>(stages, backward_s),
          .weight_gradient_s = std::vector<double>(stages, backward_s / 2),
          .activation_send_s = std::vector<double>(stages - 1, 0.0),
          .gradient_send_s = std::vector<double>(stages - 1, 0.0)};
}

PipelineCosts random_costs(std::mt19937& random, int ranks, int chunks, int microbatches) {
  std::uniform_real_distribution<double> time_s(0.5, 2);
  std::uniform_real_distribution<double> send_s(0, 0.3);
  PipelineCosts costs{.ranks = ranks, .chunks = chunks, .microbatches = microbatches};
  for (int stage = 0; stage < costs.stages(); ++stage) {
    costs.forward_s.push_back(time_s(random));
    costs.backward_s.push_back(2 * time_s(random));
    costs.weight_gradient_s.push_back(costs.backward_s.back() / 2);
    if (stage + 1 == costs.stages()) break;
    costs.activation_send_s.push_back(send_s(random));
    costs.gradient_send_s.push_back(send_s(random));
  }
  return costs;
}

void expect_same(const PipelineTimes& quick, const PipelineTimes& replayed) {
  ASSERT_EQ(quick.end_s.size(), replayed.end_s.size());
  for (std::size_t rank = 0; rank < quick.end_s.size(); ++rank) {
    EXPECT_NEAR(quick.end_s[rank], replayed.end_s[rank], 1e-9 * replayed.end_s[rank]) << "rank " << rank;
    EXPECT_NEAR(quick.busy_s[rank], replayed.busy_s[rank], 1e-9 * replayed.busy_s[rank]);
  }
}

TEST(PipelineTimes, EqualStagesHaveTheBubbleOfTheClosedForm) {
  for (const int ranks : {1, 2, 4, 16}) {
    for (const int microbatches : {1, 3, 16, 500}) {
      const double time_s = pipeline_times("1f1b", equal_stages(ranks, microbatches, 1, 2)).time_s();
      EXPECT_NEAR(time_s, 3.0 * (microbatches + ranks - 1), 1e-9 * time_s) << ranks << " x " << microbatches;
    }
  }
}

TEST(PipelineTimes, InterleavingDividesTheBubbleByTheChunks) {
  constexpr int kRanks = 4;
  constexpr int kMicrobatches = 16;
  for (const int chunks : {2, 4}) {
    PipelineCosts costs = equal_stages(kRanks * chunks, kMicrobatches, 1.0 / chunks, 2.0 / chunks);
    costs.ranks = kRanks;
    costs.chunks = chunks;
    const double time_s = pipeline_times("interleaved", costs).time_s();
    EXPECT_NEAR(time_s, 3.0 * kMicrobatches + 3.0 * (kRanks - 1) / chunks, 1e-9);
  }
}

/// The way from the backward of a microbatch on the last of S stages to the first, and forward again with the
/// microbatch S later, has S - 1 messages in each direction and is as long as S microbatches.
TEST(PipelineTimes, MessagesCostEveryMicrobatch) {
  constexpr int kMicrobatches = 120;
  for (const int ranks : {2, 3, 4}) {
    PipelineCosts costs = equal_stages(ranks, kMicrobatches, 1, 2);
    const double without_s = pipeline_times("1f1b", costs).time_s();
    for (double& send_s : costs.activation_send_s) send_s = 0.1;
    for (double& send_s : costs.gradient_send_s) send_s = 0.2;
    const double each_s = 0.3 * (ranks - 1) / ranks;
    EXPECT_NEAR(pipeline_times("1f1b", costs).time_s() - without_s, kMicrobatches * each_s, 1) << ranks;
  }
}

TEST(PipelineTimes, SteppingIsWhatReplayingGives) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = std::uniform_int_distribution(1, 12)(random);
    const int microbatches = std::uniform_int_distribution(1, 60)(random);
    const PipelineCosts costs = random_costs(random, ranks, 1, microbatches);
    SCOPED_TRACE(testing::Message() << ranks << " ranks, " << microbatches << " microbatches");
    expect_same(pipeline_times("1f1b", costs),
                replayed_times(schedule::one_f_one_b_schedule(ranks, microbatches), costs));
  }
}

TEST(PipelineTimes, SteppingInterleavedIsWhatReplayingGives) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const int ranks = std::uniform_int_distribution(2, 7)(random);
    const int chunks = std::uniform_int_distribution(2, 4)(random);
    const int rounds = std::uniform_int_distribution(1, 20)(random);
    const bool partial = trial % 5 == 0;
    const int microbatches = partial ? std::uniform_int_distribution(1, ranks)(random) : rounds * ranks;
    const PipelineCosts costs = random_costs(random, ranks, chunks, microbatches);
    SCOPED_TRACE(testing::Message() << ranks << " ranks, " << chunks << " chunks, " << microbatches << " microbatches");
    expect_same(pipeline_times("interleaved", costs),
                replayed_times(schedule::interleaved_schedule(ranks, microbatches, chunks), costs));
  }
}

TEST(PipelineTimes, EqualInterleavedStagesRepeatForLong) {
  std::mt19937 random(3);
  PipelineCosts costs = random_costs(random, 4, 3, 4000);
  costs.forward_s.assign(12, 0.7);
  costs.backward_s.assign(12, 1.9);
  expect_same(pipeline_times("interleaved", costs), replayed_times(schedule::interleaved_schedule(4, 4000, 3), costs));
}

TEST(PipelineTimes, SchedulesWithoutAShortcutAreReplayed) {
  const double time_s = pipeline_times("gpipe", equal_stages(4, 8, 1, 2)).time_s();
  EXPECT_NEAR(time_s, 3.0 * (8 + 3), 1e-9);
  EXPECT_LT(pipeline_times("zb-h1", equal_stages(4, 8, 1, 2)).time_s(), time_s);
}

}  // namespace
}  // namespace lowgear::estimator

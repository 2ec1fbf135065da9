#include "planning/schedule/list_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/core/error_of.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule_testing.h"

namespace lowgear::schedule {
namespace {

using ::testing::HasSubstr;

int one_of(std::mt19937& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}

ListScheduleRequest random_request(std::mt19937& random) {
  const int ranks = one_of(random, 1, 5);
  const int layout = one_of(random, 0, 2);
  ListScheduleRequest request;
  request.stages_of_rank = layout == 0 ? v_layout(ranks) : looped_layout(ranks, layout);
  request.microbatches = one_of(random, 1, 9);
  request.splits_backward = one_of(random, 0, 1) == 1;
  const std::size_t per_rank = request.stages_of_rank.front().size();
  for (std::size_t stage = 0; stage < per_rank * static_cast<std::size_t>(ranks); ++stage) {
    request.times.push_back({one_of(random, 1, 9), one_of(random, 1, 9), one_of(random, 1, 9)});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    request.most_activations.push_back(static_cast<int>(per_rank) + one_of(random, 0, 6));
    request.rule.most_ahead.push_back(one_of(random, 1, 12));
  }
  if (one_of(random, 0, 1) == 0) request.rule.most_ahead.clear();
  request.rule.patience = 0.5 * one_of(random, 0, 4);
  if (one_of(random, 0, 1) == 0) request.rule.weight_backlog = one_of(random, 0, 4);
  return request;
}

TEST(ListSchedule, IsCompleteFitsMemoryAndCannotHangWhateverTheRule) {
  std::mt19937 random(20);
  for (int i = 0; i < 1500; ++i) {
    const ListScheduleRequest request = random_request(random);
    const Schedule schedule = list_schedule(request);
    ASSERT_EQ(error_of([&] { (void)build_dag(schedule); }), "no error") << i;
    ASSERT_EQ(schedule.stages, static_cast<int>(request.times.size()));
    ASSERT_EQ(schedule.microbatches, request.microbatches);
    const std::vector<int> held = peak_in_flight_activations(schedule);
    for (std::size_t rank = 0; rank < held.size(); ++rank) ASSERT_LE(held[rank], request.most_activations[rank]) << i;
    if (schedule.rank_count() == 1) continue;
    const auto run = [&] { require_runnable(with_communication(schedule), P2pGrouping::none); };
    ASSERT_EQ(error_of(run), "no error") << i;
  }
}

TEST(ListSchedule, WithTheMemoryOfOneForwardOneBackwardItIsThatOrder) {
  ListScheduleRequest request{.stages_of_rank = looped_layout(4, 1),
                              .microbatches = 6,
                              .times = std::vector<StageTimes>(4, {.forward_ps = 10, .backward_ps = 20}),
                              .most_activations = {4, 3, 2, 1}};
  const Schedule schedule = list_schedule(request);
  EXPECT_EQ(schedule.ranks, one_f_one_b_schedule(4, 6).ranks);
}

TEST(ListSchedule, WaitsForAGradientThatArrivesSoonWhenItIsPatient) {
  // Rank 1's input gradient ends at 12; rank 0 is free at 10 and could begin another forward.
  ListScheduleRequest request{.stages_of_rank = looped_layout(2, 1),
                              .microbatches = 3,
                              .splits_backward = true,
                              .times = {{5, 4, 4}, {5, 2, 4}},
                              .most_activations = {3, 3}};
  EXPECT_EQ(row(list_schedule(request), 0).substr(0, 11), "0F0 0F1 0F2");
  request.rule.patience = 0.5;
  EXPECT_EQ(row(list_schedule(request), 0).substr(0, 11), "0F0 0F1 0I0");
}

TEST(ListSchedule, ComputesOwedWeightGradientsFirstBeyondTheBacklog) {
  ListScheduleRequest request{.stages_of_rank = looped_layout(1, 1),
                              .microbatches = 4,
                              .splits_backward = true,
                              .times = {{1, 1, 1}},
                              .most_activations = {4}};
  EXPECT_EQ(row(list_schedule(request), 0), "0F0 0I0 0F1 0I1 0F2 0I2 0F3 0I3 0W0 0W1 0W2 0W3");
  request.rule.weight_backlog = 0;
  EXPECT_EQ(row(list_schedule(request), 0), "0F0 0I0 0W0 0F1 0I1 0W1 0F2 0I2 0W2 0F3 0I3 0W3");
}

TEST(ListSchedule, RefusesLimitsThatNoOrderFits) {
  const ListScheduleRequest request{.stages_of_rank = v_layout(2),
                                    .microbatches = 2,
                                    .times = std::vector<StageTimes>(4, {1, 1, 1}),
                                    .most_activations = {2, 1}};
  EXPECT_THAT(error_of([&] { (void)list_schedule(request); }), HasSubstr("rank 1: 1 stage-microbatches"));
}

}  // namespace
}  // namespace lowgear::schedule

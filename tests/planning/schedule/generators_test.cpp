#include "planning/schedule/generators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/output_of.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule_testing.h"

namespace lowgear::schedule {

namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Time of an iteration of equal stages, by relaxing every dependency of the definition until nothing moves: slow, and
/// nothing in common with the graph but its list of ops.
std::vector<int> start_times(const PipelineDag& dag, int backward_time) {
  const auto time = [&](const ComputeOp& op) { return op.kind == OpKind::backward ? backward_time : 1; };
  std::vector<int> start(dag.ops.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t to = 0; to < dag.ops.size(); ++to) {
      for (std::size_t from = 0; from < dag.ops.size(); ++from) {
        const bool in_order = from + 1 == to && dag.ops[from].rank == dag.ops[to].rank;
        if (!in_order && !needs_data(dag.ops[from], dag.ops[to], dag.stages)) continue;
        const int earliest = start[from] + time(dag.ops[from]);
        moved = moved || earliest > start[to];
        start[to] = std::max(start[to], earliest);
      }
    }
  }
  return start;
}

int makespan(const PipelineDag& dag, int backward_time) {
  const std::vector<int> start = start_times(dag, backward_time);
  int end = 0;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    end = std::max(end, start[op] + (dag.ops[op].kind == OpKind::backward ? backward_time : 1));
  }
  return end;
}

/// Steps in which a rank waits between its first and its last op, with forwards, input and weight gradients of one
/// step.
std::vector<int> waits_within(const PipelineDag& dag) {
  const std::vector<int> start = start_times(dag, 2);
  std::vector<int> waits;
  for (std::size_t rank = 0; rank + 1 < dag.rank_begin.size(); ++rank) {
    const int first = dag.rank_begin[rank];
    const int last = dag.rank_begin[rank + 1] - 1;
    const int span = start[static_cast<std::size_t>(last)] - start[static_cast<std::size_t>(first)];
    waits.push_back(span - (last - first));
  }
  return waits;
}

/// What every generated schedule must be: valid, acyclic, and safe under the strictest communication.
void expect_legal(const Schedule& schedule) {
  ASSERT_EQ(error_of([&] { (void)build_dag(schedule); }), "no error");
  EXPECT_FALSE(has_communication(schedule));
  const Schedule communicating = with_communication(schedule);
  for (const P2pGrouping grouping : {P2pGrouping::none, P2pGrouping::adjacent}) {
    EXPECT_EQ(error_of([&] { require_runnable(communicating, grouping); }), "no error");
  }
}

template <typename F>
void for_each_size(F&& check) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int microbatches = 1; microbatches <= 17; ++microbatches) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << microbatches << " microbatches");
      check(ranks, microbatches);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(OneFOneB, IsLegalAndHoldsWhatItShould) {
  for_each_size([](int ranks, int microbatches) {
    const Schedule schedule = one_f_one_b_schedule(ranks, microbatches);
    expect_legal(schedule);
    const std::vector<int> peaks = peak_in_flight_activations(schedule);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(peaks[static_cast<std::size_t>(rank)], std::min(ranks - rank, microbatches));
    }
  });
}

TEST(OneFOneB, RunsInTheTableOfThePaper) {
  const Schedule schedule = one_f_one_b_schedule(4, 8);
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7");
  EXPECT_EQ(row(schedule, 3), "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7");
}

TEST(OneFOneB, TakesTheClosedFormsTime) {
  for (const auto& [ranks, microbatches] : {std::pair{1, 4}, {4, 4}, {4, 9}, {5, 2}, {6, 12}}) {
    EXPECT_EQ(makespan(build_dag(one_f_one_b_schedule(ranks, microbatches)), 2), (microbatches + ranks - 1) * 3);
  }
}

TEST(Gpipe, IsLegalAndHoldsWhatItShould) {
  for_each_size([](int ranks, int microbatches) {
    const Schedule schedule = gpipe_schedule(ranks, microbatches);
    expect_legal(schedule);
    EXPECT_THAT(peak_in_flight_activations(schedule), Each(microbatches));
  });
}

TEST(Gpipe, TakesTheClosedFormsTime) {
  EXPECT_EQ(row(gpipe_schedule(2, 3), 1), "1F0 1F1 1F2 1B0 1B1 1B2");
  EXPECT_EQ(makespan(build_dag(gpipe_schedule(4, 8)), 2), (8 + 4 - 1) * 3);
}

TEST(Interleaved, IsLegalWhereItsRoundsAreEqual) {
  for_each_size([](int ranks, int microbatches) {
    for (int chunks = 1; chunks <= 3; ++chunks) {
      const bool even = chunks == 1 || microbatches % std::max(1, microbatches / ranks) == 0;
      if (even) {
        expect_legal(interleaved_schedule(ranks, microbatches, chunks));
      } else {
        EXPECT_THAT(error_of([&] { (void)interleaved_schedule(ranks, microbatches, chunks); }),
                    HasSubstr("do not divide into"));
      }
    }
  });
}

TEST(Interleaved, WithAMultipleOfTheRanksIsMegatrons) {
  for (const auto& [ranks, rounds, chunks] : {std::tuple{2, 2, 2}, {4, 2, 2}, {4, 3, 3}, {3, 2, 3}}) {
    const int microbatches = ranks * rounds;
    const Schedule schedule = interleaved_schedule(ranks, microbatches, chunks);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
      const auto first_backward =
          std::find_if(actions.begin(), actions.end(), [](const Action& a) { return a.op == OpKind::backward; });
      // The warm-up, and the forward of the first pair.
      const int warmup = (ranks - rank - 1) * 2 + (chunks - 1) * ranks;
      EXPECT_EQ(first_backward - actions.begin(), std::min(warmup + 1, chunks * microbatches));
      EXPECT_EQ(peak_in_flight_activations(schedule)[static_cast<std::size_t>(rank)], first_backward - actions.begin());
    }
    // The bubble is that of 1F1B divided by the chunks; a chunk's forward is the unit here.
    EXPECT_EQ(makespan(build_dag(schedule), 2), 3 * (chunks * microbatches + ranks - 1));
  }
}

TEST(Interleaved, GoesThroughItsChunksInRounds) {
  const Schedule schedule = interleaved_schedule(2, 4, 2);
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(row(schedule, 1), "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

TEST(Interleaved, WithOneChunkIsOneFOneB) {
  EXPECT_EQ(interleaved_schedule(4, 7, 1).ranks, one_f_one_b_schedule(4, 7).ranks);
}

TEST(Interleaved, NamesTheNearestCountsThatWork) {
  const std::string message = error_of([] { (void)interleaved_schedule(4, 11, 2); });
  EXPECT_EQ(message,
            "interleaved: 11 microbatches on 4 ranks do not divide into 2 equal rounds; use 10 or 12 microbatches");
  EXPECT_NO_THROW((void)interleaved_schedule(4, 10, 2));
  EXPECT_NO_THROW((void)interleaved_schedule(4, 12, 2));
}

TEST(Interleaved, NamesOnlyCountsThatWork) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    for (int microbatches = 1; microbatches <= 60; ++microbatches) {
      const std::string message = error_of([&] { (void)interleaved_schedule(ranks, microbatches, 2); });
      if (message == "no error") continue;
      int below = 0;
      int above = 0;
      ASSERT_EQ(std::sscanf(message.c_str() + message.find("; use"), "; use %d or %d", &below, &above), 2);
      EXPECT_LT(below, microbatches);
      EXPECT_GT(above, microbatches);
      EXPECT_EQ(error_of([&] { (void)interleaved_schedule(ranks, below, 2); }), "no error");
      EXPECT_EQ(error_of([&] { (void)interleaved_schedule(ranks, above, 2); }), "no error");
    }
  }
}

TEST(WithSplitBackwards, PutsEachWeightGradientAfterItsInputGradient) {
  const Schedule split = with_split_backwards(one_f_one_b_schedule(2, 2));
  expect_legal(split);
  EXPECT_EQ(row(split, 0), "0F0 0F1 0I0 0W0 0I1 0W1");
  EXPECT_EQ(row(split, 1), "1F0 1I0 1W0 1F1 1I1 1W1");
}

TEST(WithSplitBackwards, LeavesWhatIsSplit) {
  EXPECT_EQ(with_split_backwards(zb_h1_schedule(3, 4)).ranks, zb_h1_schedule(3, 4).ranks);
}

TEST(ZbH1, IsLegalAndHoldsNoMoreThanOneFOneB) {
  for_each_size([](int ranks, int microbatches) {
    const Schedule schedule = zb_h1_schedule(ranks, microbatches);
    expect_legal(schedule);
    const std::vector<int> peaks = peak_in_flight_activations(schedule);
    const std::vector<int> of_1f1b = peak_in_flight_activations(one_f_one_b_schedule(ranks, microbatches));
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), of_1f1b.front());
  });
}

TEST(ZbH1, RunsInTheOrderOfThePaper) {
  const Schedule schedule = zb_h1_schedule(4, 8);
  EXPECT_EQ(row(schedule, 0),
            "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7");
  EXPECT_EQ(row(schedule, 3),
            "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 3I7 3W4 3W5 3W6 3W7");
}

TEST(ZbH1, HasAThirdOfTheBubble) {
  // Bubble (S - 1)(F + I - W) against (S - 1)(F + B) with F = I = W = 1 and B = I + W.
  for (const auto& [ranks, microbatches] : {std::pair{1, 3}, {2, 2}, {4, 4}, {4, 8}, {6, 7}}) {
    EXPECT_EQ(makespan(build_dag(zb_h1_schedule(ranks, microbatches)), 2), 3 * microbatches + ranks - 1);
  }
}

TEST(ZbH2, IsLegalAndHoldsLessThanTwiceOneFOneB) {
  for_each_size([](int ranks, int microbatches) {
    const Schedule schedule = zb_h2_schedule(ranks, microbatches);
    expect_legal(schedule);
    const std::vector<int> peaks = peak_in_flight_activations(schedule);
    EXPECT_LE(*std::ranges::max_element(peaks), std::min(2 * ranks - 1, microbatches));
  });
}

TEST(ZbH2, WaitsNowhereBetweenARanksFirstAndLastOp) {
  for (const auto& [ranks, microbatches] : {std::pair{1, 3}, {2, 4}, {3, 6}, {4, 8}, {4, 9}}) {
    EXPECT_THAT(waits_within(build_dag(zb_h2_schedule(ranks, microbatches))), Each(0));
  }
}

TEST(ZbV, IsLegalAndHoldsNoMoreThanOneFOneB) {
  for_each_size([](int ranks, int microbatches) {
    const Schedule schedule = zb_v_schedule(ranks, microbatches);
    expect_legal(schedule);
    const std::vector<int> peaks = peak_in_flight_activations(schedule);
    EXPECT_LE(*std::ranges::max_element(peaks), 2 * ranks);
  });
}

TEST(ZbV, WaitsNowhereBetweenARanksFirstAndLastOp) {
  for (const auto& [ranks, microbatches] : {std::pair{1, 3}, {2, 4}, {3, 6}, {4, 8}, {4, 9}}) {
    EXPECT_THAT(waits_within(build_dag(zb_v_schedule(ranks, microbatches))), Each(0));
  }
}

std::vector<EnvPipeStage> equal_stages(int ranks, double forward_time_s, double backward_time_s) {
  return std::vector<EnvPipeStage>(static_cast<std::size_t>(ranks), {forward_time_s, backward_time_s, std::nullopt});
}

TEST(EnvPipe, FillsTheWaitForTheFirstGradient) {
  EXPECT_THAT(envpipe_extra_forwards(8, equal_stages(4, 1.3, 2)), ElementsAre(4, 3, 1, 0));
  EXPECT_THAT(envpipe_extra_forwards(8, equal_stages(4, 13, 2)), ElementsAre(0, 0, 0, 0));
}

TEST(EnvPipe, RunsInTheOriginalsOrder) {
  const Schedule schedule = envpipe_schedule(8, std::vector{4, 3, 1, 0});
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 0B0 0B1 0B2 0B3 0B4 0B5 0B6 0B7");
  EXPECT_EQ(row(schedule, 1), "1F0 1F1 1F2 1F3 1F4 1F5 1B0 1F6 1B1 1F7 1B2 1B3 1B4 1B5 1B6 1B7");
  EXPECT_EQ(row(schedule, 2), "2F0 2F1 2F2 2B0 2F3 2B1 2F4 2B2 2F5 2B3 2F6 2B4 2F7 2B5 2B6 2B7");
  EXPECT_EQ(row(schedule, 3), row(one_f_one_b_schedule(4, 8), 3));
  EXPECT_THAT(peak_in_flight_activations(schedule), ElementsAre(8, 6, 3, 1));
}

TEST(EnvPipe, KeepsWithinMemory) {
  std::vector<EnvPipeStage> stages = equal_stages(4, 1.3, 2);
  stages[1].extra_activations = 1;
  EXPECT_THAT(envpipe_extra_forwards(8, stages), ElementsAre(4, 1, 1, 0));
  stages[0].extra_activations = -3;
  EXPECT_THAT(envpipe_extra_forwards(8, stages), ElementsAre(0, 0, 0, 0)) << "never below 1F1B, and non-increasing";
}

TEST(EnvPipe, NeverRisesFromRankToRank) {
  // Where EnvPipe's own clamp makes its exception (M = S), its counts are 0, 1, 2, 0: the example of its README.
  EXPECT_THAT(envpipe_extra_forwards(4, equal_stages(4, 1, 2)), ElementsAre(0, 0, 0, 0));
  // A slow backward late in the pipeline would let a later rank have more.
  std::vector<EnvPipeStage> stages = equal_stages(4, 1, 1);
  stages[2].backward_time_s = 9;
  EXPECT_THAT(envpipe_extra_forwards(16, stages), ElementsAre(3, 2, 2, 0));
}

TEST(EnvPipe, IsLegalForAllNonIncreasingCounts) {
  for_each_size([](int ranks, int microbatches) {
    for (const double ratio : {0.3, 1.0, 1.7, 4.0, 100.0}) {
      const std::vector<int> extra = envpipe_extra_forwards(microbatches, equal_stages(ranks, 1, ratio));
      EXPECT_TRUE(std::is_sorted(extra.rbegin(), extra.rend()));
      const Schedule schedule = envpipe_schedule(microbatches, extra);
      expect_legal(schedule);
      const std::vector<int> peaks = peak_in_flight_activations(schedule);
      for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
        EXPECT_EQ(peaks[rank], std::min(microbatches, ranks - static_cast<int>(rank) + extra[rank]));
      }
    }
  });
}

TEST(EnvPipe, RefusesCountsThatMakeTheDependenciesCycle) {
  EXPECT_EQ(error_of([] {
              (void)build_dag(envpipe_schedule(8, std::vector{0, 2, 0}));
            }),
            "envpipe: the dependencies cycle: 0B0 (rank 0, computation 3) waits for 1B0 (rank 1, computation 4), which "
            "waits for 1F3 (rank 1, computation 3), which waits for 0F3 (rank 0, computation 4), which waits for 0B0 "
            "(rank 0, computation 3); reorder one of these ranks");
}

TEST(EnvPipe, RefusesNonsense) {
  EXPECT_THAT(error_of([] { (void)envpipe_schedule(8, std::vector{0, -1}); }), HasSubstr("rank 1: -1 extra forwards"));
  EXPECT_THAT(error_of([] { (void)envpipe_extra_forwards(8, equal_stages(2, 0, 1)); }),
              HasSubstr("stage 0: forward 0 s"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of([&] { (void)envpipe_extra_forwards(8, equal_stages(2, 1, nan)); }),
              HasSubstr("must be positive"));
  EXPECT_THAT(error_of([] { (void)envpipe_schedule(8, {}); }), HasSubstr("at least 1 of each"));
}

TEST(EnvPipe, TakesExtremeTimesAndCounts) {
  EXPECT_THAT(envpipe_extra_forwards(6, equal_stages(3, 1e-300, 1e300)), ElementsAre(3, 3, 0));
  const int most = std::numeric_limits<int>::max();
  EXPECT_THAT(peak_in_flight_activations(envpipe_schedule(5, std::vector{most, most})), ElementsAre(5, 5));
}

TEST(MakeSchedule, KnowsEverySchedule) {
  for (const ScheduleGenerator& generator : schedule_generators()) {
    SCOPED_TRACE(generator.name);
    ScheduleRequest request{std::string(generator.name), 4, 8, generator.most_chunks > 1 ? 2 : 1,
                            equal_stages(4, 1, 2)};
    const Schedule schedule = make_schedule(request);
    EXPECT_EQ(schedule.name, generator.name);
    EXPECT_FALSE(generator.summary.empty());
    expect_legal(schedule);
    EXPECT_EQ(schedule.rank_count(), 4);
    EXPECT_EQ(schedule.stages, generator.most_chunks > 1 ? 8 : 4);
    EXPECT_EQ(recomputes(schedule), generator.recomputes);
  }
}

TEST(MakeSchedule, NamesTheSchedulesThatExist) {
  EXPECT_EQ(error_of([] {
              (void)make_schedule({"dualpipe", 4, 8, 1, {}});
            }),
            "no schedule is called \"dualpipe\"; there are 1f1b, gpipe, interleaved, zb-h1, zb-h2, zb-v, envpipe, "
            "merak-1f1b, merak-early-recompute, merak-last-no-recompute, merak-full-critical-path");
}

TEST(MakeSchedule, RefusesARequestThatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              (void)make_schedule({"1f1b", 4, 8, 2, {}});
            }),
            "1f1b: 2 virtual stages per rank; it runs one");
  EXPECT_EQ(error_of([] {
              (void)make_schedule({"zb-v", 4, 8, 3, {}});
            }),
            "zb-v: 3 virtual stages per rank; it runs two");
  EXPECT_EQ(error_of([] {
              (void)make_schedule({"interleaved", 4, 8, 1, {}});
            }),
            "interleaved: with 1 virtual stage per rank it is 1f1b; give 2 virtual stages or more, or name 1f1b");
  EXPECT_THAT(error_of([] {
                (void)make_schedule({"envpipe", 4, 8, 1, equal_stages(3, 1, 2)});
              }),
              HasSubstr("times of 3 stages given for 4 ranks"));
}

TEST(MakeSchedule, RefusesSizesOutOfBounds) {
  for (const ScheduleGenerator& generator : schedule_generators()) {
    SCOPED_TRACE(generator.name);
    const std::string name(generator.name);
    const int chunks = generator.fewest_chunks;
    EXPECT_THAT(error_of([&] { (void)make_schedule({name, 0, 8, chunks, {}}); }), HasSubstr("at least 1 of each"));
    EXPECT_THAT(error_of([&] {
                  (void)make_schedule({name, 4, 0, chunks, equal_stages(4, 1, 2)});
                }),
                HasSubstr("at least 1 of each"));
    EXPECT_THAT(error_of([&] {
                  (void)make_schedule({name, 4, -1, chunks, equal_stages(4, 1, 2)});
                }),
                HasSubstr("at least 1 of each"));
    const int most = std::numeric_limits<int>::max();
    EXPECT_THAT(error_of([&] { (void)make_schedule({name, most, most, chunks, {}}); }), HasSubstr("GiB"));
  }
  EXPECT_THAT(error_of([] { (void)interleaved_schedule(8, 1 << 20, 1 << 20); }), HasSubstr("GiB"));
  EXPECT_THAT(error_of([] { (void)interleaved_schedule(8, 16, 0); }), HasSubstr("0 virtual stages"));
  EXPECT_EQ(error_of([] { (void)one_f_one_b_schedule(64, 1'000'000); }),
            "1f1b: 64 ranks x 1000000 microbatches x 1 virtual stages are 1.28e+08 computations, which would take "
            "about 6 GiB with "
            "their graph; at most 67108864 are supported: lower one of them");
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MerakSchedules, RecomputeInsideEveryBackward) {
  const Schedule schedule = merak_1f1b_schedule(2, 3);
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0C0 0F2 0C1 0C2");
  EXPECT_EQ(row(schedule, 1), "1F0 1C0 1F1 1C1 1F2 1C2");
}

TEST(MerakSchedules, RecomputeWhileTheLastGradientsAreWaitedFor) {
  const Schedule schedule = merak_early_recompute_schedule(3, 4);
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0F2 0C0 0F3 0C1 0R2 0B2 0R3 0B3");
  EXPECT_EQ(row(schedule, 1), "1F0 1F1 1C0 1F2 1C1 1F3 1C2 1R3 1B3");
  EXPECT_EQ(row(schedule, 2), "2F0 2C0 2F1 2C1 2F2 2C2 2F3 2C3");
}

TEST(MerakSchedules, KeepAllActivationsOnTheLastRank) {
  const Schedule schedule = merak_last_no_recompute_schedule(3, 4);
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0F2 0C0 0F3 0C1 0R2 0B2 0R3 0B3");
  EXPECT_EQ(row(schedule, 1), "1F0 1F1 1R0 1B0 1F2 1C1 1F3 1C2 1C3");
  EXPECT_EQ(row(schedule, 2), "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

TEST(MerakSchedules, ShiftTheCriticalPath) {
  const Schedule schedule = merak_full_critical_path_schedule(4, 5);
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0F2 0F3 0C0 0F4 0C1 0R2 0B2 0R3 0B3 0R4 0B4");
  EXPECT_EQ(row(schedule, 1), "1F0 1F1 1F2 1R0 1B0 1F3 1C1 1F4 1C2 1R3 1B3 1R4 1B4");
  EXPECT_EQ(row(schedule, 2), "2F0 2F1 2F2 2R0 2B0 2R1 2B1 2F3 2C2 2F4 2C3 2C4");
  EXPECT_EQ(row(schedule, 3), "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4");
  EXPECT_THAT(error_of([] { (void)merak_full_critical_path_schedule(4, 2); }), HasSubstr("give at least 3"));
}

TEST(MerakSchedules, HoldInputsAndFewActivations) {
  const auto peaks = [](const Schedule& schedule) {
    std::vector<std::pair<int, int>> result;
    for (const HeldPeaks& rank : held_peaks(schedule)) result.emplace_back(rank.inputs, rank.activations);
    return result;
  };
  EXPECT_THAT(peaks(merak_1f1b_schedule(3, 6)), ElementsAre(std::pair(3, 1), std::pair(2, 1), std::pair(1, 1)));
  EXPECT_THAT(peaks(merak_full_critical_path_schedule(3, 6)),
              ElementsAre(std::pair(3, 1), std::pair(3, 1), std::pair(0, 1)));
}

/// The rank's ops, as the unmodified classes of Merak's file yield them and its engine would run them. The engine's
/// state (`pipe_engine.py`): whether forwards keep checkpoints, and of each buffer whether its backward has to
/// recompute. A line for each rank: schedule, ranks, microbatches, rank, number of ops, ops.
constexpr const char* kMeraksOwn = R"(
import importlib.util, sys, types
for name, values in (("Merak", {}), ("Merak.runtime", {}), ("Merak.utils", {}),
                     ("Merak.runtime.utils", {"call_to_str": lambda base, *args, **kwargs: base}),
                     ("Merak.utils.merak_args", {"get_args": lambda: None})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
    vars(sys.modules[name]).update(values)
spec = importlib.util.spec_from_file_location("Merak.runtime.schedule", sys.argv[1])
merak = importlib.util.module_from_spec(spec)
spec.loader.exec_module(merak)

def run(instructions, rank, interval):
    configured, forwards, held, ops = interval, 0, {}, []
    for instruction in instructions:
        kind, buffer = type(instruction).__name__, getattr(instruction, "buffer_id", None)
        if kind in ("ForwardPass", "PreCheckpointForwardPass"):
            assert buffer not in held
            held[buffer] = [forwards, interval > 0]
            ops.append("%dF%d" % (rank, forwards))
            forwards += 1
        elif kind == "RecomputeRecvGrad":
            assert held[buffer][1]
            interval = 0
            held[buffer][1] = False
            ops.append("%dR%d" % (rank, held[buffer][0]))
        elif kind == "RestoreRecomputeStatus":
            interval = configured
        elif kind == "BackwardPass":
            microbatch, recomputes = held.pop(buffer)
            ops.append("%d%s%d" % (rank, "C" if recomputes else "B", microbatch))
    assert not held
    return ops

for name, schedule, last_interval in (("merak-1f1b", "MergeP2PTrainSchedule", 1), ("merak-1f1b", "TrainSchedule", 1),
                                      ("merak-early-recompute", "PreRecomputeTrainSchedule", 1),
                                      ("merak-last-no-recompute", "LastNoRecomputeTrainSchedule", 0),
                                      ("merak-full-critical-path", "FullCriticalPathTrainSchedule", 0)):
    for ranks in list(range(1, 10)) + [16]:
        for microbatches in list(range(3 if "full" in name else 1, 21)) + [64]:
            for rank in range(ranks):
                steps = getattr(merak, schedule)(micro_batches=microbatches, stages=ranks, stage_id=rank)
                instructions = [instruction for step in steps for instruction in step]
                ops = run(instructions, rank, last_interval if rank == ranks - 1 else 1)
                print(name, ranks, microbatches, rank, len(ops), *ops)
)";

TEST(MerakSchedules, AreThoseOfMeraksOwnCode) {
  const std::filesystem::path own =
      std::filesystem::path(LOWGEAR_SOURCE_DIR).parent_path() / "shared/peers/merak/Merak/runtime/schedule.py";
  if (!std::filesystem::exists(own)) GTEST_SKIP() << own << " is not there: NOT compared with Merak's own code";
  const std::string command = "python3 -B -c '" + std::string(kMeraksOwn) + "' '" + own.string() + "'";
  std::istringstream lines(output_of(command));
  std::map<std::string, int> compared;
  std::string name;
  int ranks = 0;
  int microbatches = 0;
  int rank = 0;
  std::size_t count = 0;
  while (lines >> name >> ranks >> microbatches >> rank >> count) {
    std::string expected;
    for (std::string op; count > 0 && lines >> op; --count) expected += (expected.empty() ? "" : " ") + op;
    ASSERT_EQ(row(make_schedule({name, ranks, microbatches, 1, {}}), rank), expected)
        << name << ", " << ranks << " ranks, " << microbatches << " microbatches";
    ++compared[name];
  }
  EXPECT_EQ(compared["merak-1f1b"], 2 * 61 * 21);
  EXPECT_EQ(compared["merak-early-recompute"], 61 * 21);
  EXPECT_EQ(compared["merak-last-no-recompute"], 61 * 21);
  EXPECT_EQ(compared["merak-full-critical-path"], 61 * 19);
}

}  // namespace

}  // namespace lowgear::schedule

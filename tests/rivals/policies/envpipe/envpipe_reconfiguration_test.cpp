#include "rivals/policies/envpipe/envpipe_reconfiguration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "planning/planner/policies/sample_problem.h"
#include "planning/schedule/generators.h"
#include "rivals/policies/published_loop.h"

namespace lowgear::policies {
namespace {

using Reconfiguration = EnvPipeOptions::Reconfiguration;

constexpr int kTopMhz = 1350;

/// Clocks as EnvPipe's lists have them on an A100.
profile::StageProfile a100_profile(int stages) {
  profile::StageProfile profile(stages);
  for (int stage = 0; stage < stages; ++stage) {
    for (int clock = kTopMhz; clock >= 810; clock -= 30) {
      const double time_s = 0.01 * kTopMhz / clock;
      profile.add(stage, OpKind::forward, {clock, time_s, 100 * time_s});
      profile.add(stage, OpKind::backward, {clock, 2 * time_s, 200 * time_s});
    }
  }
  return profile;
}

TEST(EnvPipeClockFrom, RoundsUpAndStaysAtTheHighest) {
  const std::vector<int> clocks = {1350, 1320, 1200};
  EXPECT_EQ(envpipe_clock_from(clocks, 1320), 1320);
  EXPECT_EQ(envpipe_clock_from(clocks, 1201), 1320);
  EXPECT_EQ(envpipe_clock_from(clocks, 100), 1200);
  EXPECT_EQ(envpipe_clock_from(clocks, 1400), 1350);
}

struct Case {
  int stages;
  int microbatches;
  std::vector<int> early;  ///< EnvPipe's cnt
  double scale;
  Reconfiguration method;
  bool uniform;
};

/// Waits of a training in which ranks fall behind at random: transfers of about 1 ms, half of the receives wait.
double receive_ms(std::mt19937& random) {
  const double transfer_ms = 0.8 + 0.4 * static_cast<double>(random() % 1000) / 1000;
  return random() % 2 == 0 ? transfer_ms : transfer_ms + static_cast<double>(random() % 30);
}

void expect_same_decisions(const Case& c, unsigned seed) {
  const schedule::PipelineDag dag = build_dag(schedule::envpipe_schedule(c.microbatches, c.early));
  const profile::StageProfile profile = a100_profile(c.stages);
  constexpr int kStartMhz[] = {1080, 990, 1170, 810};
  std::vector<int> clocks;
  std::vector<std::vector<PublishedLoop::Unit>> units(static_cast<std::size_t>(c.stages));
  std::vector<PublishedLoop::Place> places;
  for (const schedule::ComputeOp& op : dag.ops) {
    const bool forward = op.kind == OpKind::forward;
    const bool envelope = op.rank == c.stages - 1 || op.microbatch == (forward ? 0 : c.microbatches - 1);
    clocks.push_back(envelope && !c.uniform ? kTopMhz : kStartMhz[op.rank % 4]);
    auto& stage = units[static_cast<std::size_t>(op.rank)];
    places.emplace_back(op.rank, stage.size());
    stage.push_back({forward ? 'F' : 'B', op.microbatch, clocks.back()});
  }
  PublishedLoop theirs(units, {.top_mhz = kTopMhz, .scale = c.scale, .greedy = c.method == Reconfiguration::greedy});
  EnvPipeReconfiguration ours(dag, envpipe_clocks(profile), {.reconfiguration = c.method, .threshold_scale = c.scale},
                              {.clocks_mhz = clocks});
  std::mt19937 random(seed);
  int steps = 0;
  for (; !theirs.finished(); ++steps) {
    ASSERT_FALSE(ours.is_finished()) << "step " << steps;
    std::vector<double> receive_s(dag.ops.size(), 0);
    for (std::size_t op = 0; op < dag.ops.size(); ++op) {
      if (ours.senders()[op] < 0) continue;
      // The first unit of a rank always waits: EnvPipe's walk must not leave the start of a stage.
      const double time_ms = places[op].second == 0 ? 1e4 : receive_ms(random);
      receive_s[op] = time_ms * 1e-3;
      theirs.receive(places[op].first, places[op].second, receive_s[op] * 1e3);
    }
    const std::vector<PublishedLoop::Place> their_path = theirs.step();
    const EnvPipeReconfiguration::Step decided = ours.step(receive_s);
    std::vector<PublishedLoop::Place> our_path;
    for (const int op : decided.path) our_path.push_back(places[static_cast<std::size_t>(op)]);
    ASSERT_EQ(our_path, their_path) << "step " << steps;
    for (std::size_t op = 0; op < dag.ops.size(); ++op) {
      // Theirs has no upper end for greedy rises; clocks above the highest one do not exist.
      const int their_mhz = theirs.stages()[places[op].first][places[op].second].clock_mhz;
      ASSERT_EQ(ours.clocks_mhz()[op], std::min(their_mhz, kTopMhz)) << "step " << steps << ", op " << op;
    }
  }
  EXPECT_TRUE(ours.is_finished());
  EXPECT_GT(steps, 11);
}

TEST(EnvPipeReconfiguration, DecidesAsThePublishedLoopStepByStep) {
  for (const Reconfiguration method : {Reconfiguration::balanced, Reconfiguration::greedy}) {
    for (const bool uniform : {false, true}) {
      for (const double scale : {4.0, 8.0, 10.0}) {
        expect_same_decisions({4, 16, {0, 0, 0, 0}, scale, method, uniform}, 1);
        expect_same_decisions({4, 8, {4, 3, 1, 0}, scale, method, uniform}, 2);
        expect_same_decisions({2, 4, {1, 0}, scale, method, uniform}, 3);
        expect_same_decisions({8, 32, {7, 6, 5, 4, 3, 2, 1, 0}, scale, method, uniform}, 4);
      }
    }
  }
}

TEST(EnvPipeReconfiguration, PrintsTheGridWithItsPathInBrackets) {
  const schedule::PipelineDag dag = build_dag(schedule::one_f_one_b_schedule(2, 2));
  const std::vector<int> clocks(8, 1350);
  const std::vector<double> receive_s{0, 0, 0.0125, 0.001, 0.003, 0, 0.001, 0};
  const std::vector<int> path{3, 2, 1, 0};
  EXPECT_EQ(envpipe_step_text(dag, clocks, receive_s, path),
            "Stage 0 | [F0 1350 0.0][F1 1350 0.0][B0 1350 12.5][B1 1350 1.0]\n"
            "Stage 1 |  F0 1350 3.0  B0 1350 0.0  F1 1350 1.0  B1 1350 0.0 \n");
}

/// 1F1B with two ranks and two microbatches: F0 F1 B0 B1 and F0 B0 F1 B1.
struct SmallLoop {
  explicit SmallLoop(EnvPipeOptions options = {}, EnvPipeState state = {.clocks_mhz = std::vector<int>(8, 1300)},
                     const std::vector<int>& clocks = {1350, 1330, 1300})
      : loop(dag,
             {{{0, OpKind::forward}, clocks},
              {{0, OpKind::backward}, clocks},
              {{1, OpKind::forward}, clocks},
              {{1, OpKind::backward}, clocks}},
             options, std::move(state)) {}

  const schedule::PipelineDag dag = build_dag(schedule::one_f_one_b_schedule(2, 2));
  EnvPipeReconfiguration loop;
};

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> kNoWaits{0, 0, 1e-3, 1e-3, 1e-3, 0, 1e-3, 0};

TEST(EnvPipeReconfiguration, RoundsUpToClocksThatThereAreAndNotAboveTheHighest) {
  for (const auto& [step_mhz, clock_mhz] :
       {std::pair(30, 1330), std::pair(10, 1330), std::pair(40, 1350), std::pair(99, 1350)}) {
    SmallLoop job({.raise_step_mhz = step_mhz});
    (void)job.loop.step(kNoWaits);
    EXPECT_EQ(job.loop.clocks_mhz(),
              (std::vector<int>{clock_mhz, clock_mhz, clock_mhz, clock_mhz, 1300, 1300, 1300, 1300}))
        << step_mhz;
  }
}

TEST(EnvPipeReconfiguration, StaysWhereAReceiveIsMissingAndSaysWhich) {
  for (const double bad : {kMissing, -1e-3, std::numeric_limits<double>::infinity()}) {
    SmallLoop job;
    const EnvPipeState before = job.loop.state();
    std::vector<double> receive_s = kNoWaits;
    receive_s[3] = bad;
    const EnvPipeReconfiguration::Step step = job.loop.step(receive_s);
    EXPECT_EQ(step.problem, "no receive was measured of rank 0, B1");
    EXPECT_EQ(job.loop.state(), before) << "the threshold is not that of an incomplete step";
    EXPECT_TRUE(job.loop.step(kNoWaits).problem.empty());
    EXPECT_NE(job.loop.state(), before);
  }
  SmallLoop job;
  EXPECT_EQ(job.loop.step(std::vector<double>(3, 0)).problem, "3 receives were measured of 8 units");
}

TEST(EnvPipeReconfiguration, TakesItsThresholdFromTheFirstStepAlone) {
  SmallLoop job;
  (void)job.loop.step(kNoWaits);
  EXPECT_DOUBLE_EQ(job.loop.state().threshold_s.value(), 4e-3);
  std::vector<double> slower = kNoWaits;
  for (double& receive_s : slower) receive_s *= 10;
  EXPECT_EQ(job.loop.step(slower).path, (std::vector<int>{3, 7, 6, 1, 0})) << "10 ms wait by a threshold of 4 ms";
  EXPECT_DOUBLE_EQ(job.loop.state().threshold_s.value(), 4e-3);
}

TEST(EnvPipeReconfiguration, ContinuesFromItsState) {
  SmallLoop whole;
  std::vector<std::vector<int>> clocks;
  for (int step = 0; step < 14; ++step) {
    (void)whole.loop.step(kNoWaits);
    clocks.push_back(whole.loop.clocks_mhz());
  }
  EXPECT_TRUE(whole.loop.is_finished());
  SmallLoop first;
  (void)first.loop.step(kNoWaits);
  SmallLoop second({}, first.loop.state());
  for (int step = 1; step < 14; ++step) {
    (void)second.loop.step(kNoWaits);
    EXPECT_EQ(second.loop.clocks_mhz(), clocks[static_cast<std::size_t>(step)]);
  }
  EXPECT_EQ(second.loop.state(), whole.loop.state());
}

TEST(EnvPipeReconfiguration, DefaultHasEndedAtOnce) {
  EXPECT_TRUE(SmallLoop({.reconfiguration = Reconfiguration::off}).loop.is_finished());
}

}  // namespace
}  // namespace lowgear::policies

#include "report/report/measured_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/formats/json.h"
#include "report/report/chrome_trace.h"
#include "report/report/sample_recording.h"

namespace lowgear::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(MeasuredTimelines, PutRanksOfAMachineOnItsClock) {
  const SampleRun run;
  const std::vector<MeasuredTimeline> timelines = measured_timelines(run.recordings, run.dag);
  ASSERT_THAT(timelines, SizeIs(4));
  const MeasuredTimeline& third = timelines[2];
  EXPECT_EQ(third.iteration, 2);
  EXPECT_TRUE(third.simulated);
  EXPECT_EQ(third.axis, TimeAxis::one_clock);
  ASSERT_THAT(third.ranks, SizeIs(2));
  EXPECT_EQ(third.ranks[1].pipeline_rank, 1);
  // Rank 0 begins the iteration 1 ms before its first unit; rank 1 runs half a microbatch behind, on a clock of its
  // own.
  EXPECT_NEAR(third.ranks[0].ops[0].start_s, 0.001, 1e-9);
  EXPECT_NEAR(third.ranks[0].ops[0].end_s, 0.101, 1e-9);
  EXPECT_NEAR(third.ranks[1].ops[0].start_s, 0.101, 1e-9);
  EXPECT_NEAR(third.time_s, run.iteration_end_s - 0.001, 1e-9);
  EXPECT_EQ(third.ranks[1].ops[0].clock_mhz, 1200);
}

TEST(MeasuredTimelines, CountNoTimeThatARankWaitsForTheFirstUnit) {
  SampleRun run;
  const double time_s = measured_timelines(run.recordings, run.dag).back().time_s;
  // Without a barrier, rank 1 begins the next iteration while rank 0 still ends the one before.
  for (profile::RecordedIteration& iteration : run.recordings[1].iterations) iteration.start_s -= 0.08;
  EXPECT_NEAR(measured_timelines(run.recordings, run.dag).back().time_s, time_s, 1e-9);
}

TEST(MeasuredTimelines, LetIterationsBeginTogetherOnSeveralMachines) {
  SampleRun run;
  run.recordings[1].clock->boot_id = "another machine";
  for (const bool known : {true, false}) {
    SCOPED_TRACE(known);
    if (!known) run.recordings[0].clock = run.recordings[1].clock = std::nullopt;
    const MeasuredTimeline timeline = measured_timelines(run.recordings, run.dag).back();
    EXPECT_EQ(timeline.axis, TimeAxis::iteration_begin);
    EXPECT_NEAR(timeline.ranks[0].ops[0].start_s, 0.001, 1e-9);
    // Its iteration begins with that of rank 0, and it waits.
    EXPECT_NEAR(timeline.ranks[1].ops[0].start_s, 0.101, 1e-9);
  }
}

TEST(MeasuredTimelines, KnowPowerAndClockOfTheTime) {
  SampleRun run;
  const MeasuredTimeline timeline = measured_timelines(run.recordings, run.dag)[1];
  const auto& power = timeline.ranks[0].power;
  ASSERT_GE(power.size(), 4);
  EXPECT_EQ(power.front().start_s, 0);
  for (std::size_t i = 0; i < power.size(); ++i) {
    EXPECT_NEAR(power[i].power_w, 250, 1e-6);
    EXPECT_TRUE(i == 0 || power[i].start_s > power[i - 1].start_s);
  }
  ASSERT_FALSE(timeline.ranks[0].clocks.empty());
  EXPECT_EQ(timeline.ranks[0].clocks[0].clock_mhz, 1195);
  // A counter that jumps, then starts over: the readings of power next to it are right.
  std::vector<profile::EnergySample>& samples = run.recordings[0].samples;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].power_w = 240;
    *samples[i].energy_j += i < samples.size() / 3 ? 0 : i < samples.size() / 2 ? 1e6 : -1e5;
  }
  for (const MeasuredTimeline& each : measured_timelines(run.recordings, run.dag)) {
    for (const MeasuredPower& point : each.ranks[0].power) EXPECT_NEAR(point.power_w, 245, 6);
  }
  samples.clear();
  EXPECT_TRUE(measured_timelines(run.recordings, run.dag)[1].ranks[0].power.empty());
}

TEST(MeasuredTimelines, HaveOnlyIterationsThatAllRanksCompleted) {
  SampleRun run;
  run.recordings[1].units.pop_back();
  EXPECT_EQ(measured_timelines(run.recordings, run.dag).back().iteration, 2);
  std::erase_if(run.recordings[0].units, [](const profile::RecordedUnit& unit) { return unit.iteration == 1; });
  EXPECT_THAT(measured_timelines(run.recordings, run.dag), SizeIs(2));
  run.recordings[0].units.resize(1);
  EXPECT_THAT(error_of([&] { (void)measured_timelines(run.recordings, run.dag); }), HasSubstr("no iteration"));
  EXPECT_THAT(error_of([&] { (void)measured_timelines({}, run.dag); }), HasSubstr("no iteration"));
}

TEST(MeasuredTimelines, TakeTheLaterPartWhereAResumedJobRepeatedAnIteration) {
  SampleRun run;
  std::vector<profile::Recording> parts = run.recordings;
  for (profile::Recording recording : run.recordings) {
    recording.part = 1;
    std::erase_if(recording.units, [](const profile::RecordedUnit& unit) { return unit.iteration < 3; });
    for (profile::RecordedUnit& unit : recording.units) unit.clock_mhz = 900;
    parts.push_back(recording);
  }
  const std::vector<MeasuredTimeline> timelines = measured_timelines(parts, run.dag);
  ASSERT_THAT(timelines, SizeIs(4));
  EXPECT_EQ(timelines[2].ranks[0].ops[0].clock_mhz, 1200);
  EXPECT_EQ(timelines[3].ranks[0].ops[0].clock_mhz, 900);
}

TEST(MeasuredTimelines, RefuseRecordingsOfAnotherPipeline) {
  const auto error = [](const SampleRun& run) {
    return error_of([&] { (void)measured_timelines(run.recordings, run.dag); });
  };
  SampleRun run;
  for (profile::RecordedUnit& unit : run.recordings[1].units) unit.stage = 5;
  EXPECT_THAT(error(run), HasSubstr("units of stage 5, which no rank of the plan runs"));
  run = SampleRun();
  run.recordings[0].units[3].stage = 1;
  EXPECT_THAT(error(run), HasSubstr("with its others"));
  run = SampleRun();
  std::swap(run.recordings[0].units[0].microbatch, run.recordings[0].units[1].microbatch);
  EXPECT_THAT(error(run), HasSubstr("iteration 0 runs the forward of stage 0, microbatch 1 where the plan has the "
                                    "forward of stage 0, microbatch 0"));
}

TEST(CompareWith, TakesMeansAfterTheWarmUp) {
  SampleRun run;
  for (profile::Recording& recording : run.recordings) {
    for (profile::RecordedUnit& unit : recording.units) {
      if (unit.iteration < kWarmUpIterations) unit.end_s -= 0.03;
    }
  }
  std::vector<double> expected_s;
  for (const schedule::ComputeOp& op : run.dag.ops) expected_s.push_back(op.kind == OpKind::forward ? 0.08 : 0.2);
  const auto timelines = measured_timelines(run.recordings, run.dag);
  std::vector<int> clocks_mhz(run.dag.ops.size(), timelines.at(0).ranks.at(0).ops.at(0).clock_mhz);
  clocks_mhz.front() = 1;
  const IterationComparison comparison = compare_with(timelines, run.dag, expected_s, clocks_mhz);
  EXPECT_EQ(comparison.iterations, 2);
  EXPECT_NEAR(comparison.measured_s, run.iteration_end_s - 0.001, 1e-9) << "less what rank 0 waits for its first unit";
  ASSERT_THAT(comparison.units, SizeIs(4));
  const UnitComparison& forward = comparison.units[0];
  EXPECT_EQ(forward.units, 2 * 2);
  EXPECT_EQ(forward.at_other_clocks, 2);
  EXPECT_EQ(comparison.units[1].at_other_clocks, 0);
  EXPECT_NEAR(forward.expected_s, 0.08, 1e-12);
  EXPECT_NEAR(forward.measured_s, 0.1, 1e-9);
  EXPECT_NEAR(forward.deviation_s, 0, 1e-6);
  EXPECT_NEAR(forward.difference_pct(), 25, 1e-6);
  EXPECT_NEAR(comparison.units[1].difference_pct(), 0, 1e-6);
  EXPECT_EQ(compare_with(std::span(timelines).first(2), run.dag, expected_s, clocks_mhz).iterations, 2)
      << "better than none";
}

Timeline planned_timeline(const SampleRun& run) {
  Timeline timeline{"plan", 1, 100, std::vector<std::vector<Op>>(2)};
  double start_s = 0;
  for (const schedule::ComputeOp& op : run.dag.ops) {
    auto& ops = timeline.ranks[static_cast<std::size_t>(op.rank)];
    if (ops.empty()) start_s = 0;
    ops.push_back({{op.stage, op.kind, op.microbatch, 1200, start_s, 0.1}, 20});
    start_s += 0.1;
  }
  return timeline;
}

TEST(MeasuredTrace, HasBothOnOneAxis) {
  const SampleRun run;
  const MeasuredTimeline measured = measured_timelines(run.recordings, run.dag)[2];
  const Json trace = parse_json(
      write_chrome_trace(planned_timeline(run), std::vector<double>{80, 80}, TraceFigures::replayed, measured),
      "trace");
  EXPECT_EQ(trace["otherData"]["figures"], "replayed");
  EXPECT_EQ(trace["otherData"]["measured"]["figures"], "simulated");
  EXPECT_EQ(trace["otherData"]["measured"]["iteration"], 2);
  EXPECT_EQ(trace["otherData"]["measured"]["time_axis"], "one clock");
  std::vector<std::string> processes;
  std::vector<int> places;
  std::map<int, int> slices;
  std::map<int, std::int64_t> end_ns;
  for (const Json& event : trace["traceEvents"]) {
    const int pid = event["pid"];
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
    if (event["name"] == "process_sort_index") places.push_back(event["args"]["sort_index"]);
    if (event["ph"] != "X") continue;
    ++slices[pid];
    const std::int64_t start_ns = std::llround(event["ts"].get<double>() * 1000);
    EXPECT_GE(start_ns, end_ns[pid]);
    end_ns[pid] = start_ns + std::llround(event["dur"].get<double>() * 1000);
    EXPECT_EQ(event["args"]["clock_mhz"], 1200);
    EXPECT_EQ(event["args"].contains("energy_j"), pid % 2 == 1) << "single units have no measured energy";
  }
  EXPECT_THAT(processes, ElementsAre("rank 0: plan (replayed)", "rank 0: iteration 2 (simulated)",
                                     "rank 1: plan (replayed)", "rank 1: iteration 2 (simulated)"));
  EXPECT_THAT(places, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(slices, ElementsAre(testing::Pair(1, 4), testing::Pair(2, 4), testing::Pair(3, 4), testing::Pair(4, 4)));
  EXPECT_NEAR(static_cast<double>(end_ns[2]), 1e9 * run.iteration_end_s, 2);
}

TEST(MeasuredTrace, SaysMeasuredOfRealGpus) {
  SampleRun run;
  for (profile::Recording& recording : run.recordings) recording.simulated = false;
  EXPECT_EQ(figures_of(measured_timelines(run.recordings, run.dag).front()), "measured");
}

}  // namespace
}  // namespace lowgear::report

#include "planning/schedule/merak_schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/output_of.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/deadlock.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule_testing.h"

namespace lowgear::schedule {
namespace {

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

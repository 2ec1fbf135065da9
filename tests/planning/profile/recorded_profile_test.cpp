#include "planning/profile/recorded_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/core/error_of.h"
#include "planning/profile/made_up_recording.h"
#include "planning/profile/options.h"
#include "planning/profile/profile_file.h"

namespace lowgear::profile {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

Recording recorded(int rank, double forward_s = 0.05, double extra_w = 0) {
  MadeUpProcess process;
  process.power_w = {{{0, OpKind::forward, 1000}, 300 + extra_w}, {{0, OpKind::backward, 1000}, 400 + extra_w}};
  process.seed = static_cast<unsigned>(rank) + 1;
  Recording recording = process.record({1000}, 60, 8, forward_s);
  recording.rank = rank;
  recording.source = "rank-" + std::to_string(rank);
  return recording;
}

TEST(ProfileRecordings, TakesTheSlowestRanksTimeAndTheMeanEnergyOfAGpu) {
  const std::vector<Recording> ranks = {recorded(0, 0.05, 0), recorded(1, 0.06, 20)};
  const RecordedProfile profile = profile_recordings(ranks, {});
  ASSERT_EQ(profile.cells.size(), 2);
  const RecordedCell& forward = profile.cells[0];
  EXPECT_EQ(forward.ranks, 2);
  EXPECT_EQ(forward.units, 2 * 58 * 8) << "two iterations of warm-up";
  EXPECT_NEAR(forward.time_s, 0.06, 2e-4);
  EXPECT_NEAR(forward.energy_j, (300 * 0.05 + 320 * 0.06) / 2, 0.3);
  EXPECT_GT(forward.energy_error_j, 0);
  EXPECT_LT(forward.energy_error_j, 0.3);
  ASSERT_EQ(profile.blocking.size(), 1);
  EXPECT_NEAR(profile.blocking[0].power_w, 80, 6);
  EXPECT_EQ(profile.profile().at_clock(0, OpKind::forward, 1000).time_s, forward.time_s);
  EXPECT_THAT(profile.warnings, ElementsAre(HasSubstr("energies of ranks 0, 1 were not compared with power readings")));
}

TEST(ProfileRecordings, WarnsOfThrottlingLostUnitsAndUnitsWithoutAClock) {
  Recording recording = recorded(0);
  recording.lost_units = 3;
  recording.invalid = "its kernels were too short";
  recording.warnings = {"units.csv: was cut off"};
  for (EnergySample& sample : recording.samples) sample.throttle_reasons = 4;
  for (std::size_t i = recording.units.size() - 20; i < recording.units.size(); ++i) recording.units[i].clock_mhz = 0;
  const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
  EXPECT_EQ(profile.cells.size(), 2) << "none of clock 0";
  EXPECT_EQ(profile.cells[0].throttled_share, 1);
  EXPECT_THAT(profile.warnings, Contains(HasSubstr("throttled in 100 % of the samples")));
  EXPECT_THAT(profile.warnings, Contains(HasSubstr("3 units were lost")));
  EXPECT_THAT(profile.warnings, Contains(HasSubstr("marked invalid: its kernels were too short")));
  EXPECT_THAT(profile.warnings, Contains("units.csv: was cut off"));
  EXPECT_THAT(profile.warnings, Contains(HasSubstr("no clock was requested for 20 units")));
  // At the requested clock the reason is that of the unit before.
  for (EnergySample& sample : recording.samples) sample.sm_mhz = recording.units.front().clock_mhz;
  EXPECT_EQ(profile_recordings(std::vector{recording}, {}).cells[0].throttled_share, 0);
}

TEST(ProfileRecordings, TakesTheNamedClockWhereNoneWasRequested) {
  Recording unlabelled = recorded(0);
  for (RecordedUnit& unit : unlabelled.units) unit.clock_mhz = 0;
  const RecordedProfile named = profile_recordings(std::vector{unlabelled}, {.blocking_w = {}, .own_clock_mhz = 1000});
  const RecordedProfile requested = profile_recordings(std::vector{recorded(0)}, {});
  ASSERT_EQ(named.cells.size(), requested.cells.size());
  for (std::size_t i = 0; i < named.cells.size(); ++i) {
    EXPECT_EQ(named.cells[i].key, requested.cells[i].key);
    EXPECT_DOUBLE_EQ(named.cells[i].energy_j, requested.cells[i].energy_j);
  }
}

TEST(ProfileRecordings, DoesNotTakeIdleReasonsForThrottling) {
  Recording recording = recorded(0);
  for (EnergySample& sample : recording.samples)
    sample.throttle_reasons = 0x1 | 0x2 | 0x10;  // idle, applications, sync
  EXPECT_EQ(profile_recordings(std::vector{recording}, {}).cells[0].throttled_share, 0);
}

TEST(ProfileRecordings, WarnsOfTimesThatVaryAndOfFewUnits) {
  Recording recording = recorded(0);
  for (std::size_t i = 40; i < recording.units.size(); i += 4) recording.units[i].end_s -= 0.025;
  recording.units.back().clock_mhz = 900;
  const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
  EXPECT_THAT(profile.warnings, Contains(HasSubstr("times vary by")));
  EXPECT_THAT(profile.warnings, Contains(HasSubstr("at 900 MHz: only 1 unit")));
  for (std::size_t i = 0; i < recording.units.size(); i += 8) {
    recording.units[i].clock_mhz = 900 + 15 * static_cast<int>(i / 64);
  }
  const std::vector<std::string> many = profile_recordings(std::vector{recording}, {}).warnings;
  EXPECT_THAT(many, Contains(HasSubstr("cells have fewer than 10 units, the least")));
  EXPECT_EQ(
      std::ranges::count_if(many, [](const std::string& line) { return line.find(": only ") != std::string::npos; }),
      1);
}

TEST(ProfileRecordings, LeavesOutWhatCannotBeToldApart) {
  Recording recording = recorded(0);
  // The only unit of its clock takes no time: its energy is unknown.
  RecordedUnit empty = recording.units[100];
  empty.clock_mhz = 900;
  empty.end_s = empty.start_s;
  recording.units.insert(recording.units.begin() + 100, empty);
  const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
  EXPECT_THAT(profile.warnings, Contains(HasSubstr("cannot be distinguished from that of others")));
  EXPECT_EQ(profile.profile().measurements(0, OpKind::forward).size(), 1);
}

/// Backwards split as PyTorch's first stage does: an input gradient that takes `empty_s`, then all of the work.
Recording with_empty_input_gradients(const std::vector<int>& clocks_mhz, double empty_s) {
  MadeUpProcess process;
  for (const int clock_mhz : clocks_mhz) {
    process.power_w[{0, OpKind::forward, clock_mhz}] = 0.3 * clock_mhz;
    process.power_w[{0, OpKind::backward, clock_mhz}] = 0.4 * clock_mhz;
  }
  Recording recording = process.record(clocks_mhz, 30, 8);
  std::vector<RecordedUnit> units;
  for (const RecordedUnit& unit : recording.units) {
    units.push_back(unit);
    if (unit.kind != OpKind::backward) continue;
    units.back().kind = OpKind::input_gradient;
    units.back().end_s = unit.start_s + empty_s;
    units.push_back(unit);
    units.back().kind = OpKind::weight_gradient;
    units.back().start_s = unit.start_s + empty_s;
  }
  recording.units = std::move(units);
  return recording;
}

TEST(ProfileRecordings, GivesUnitsThatTakeNoTimeTheSameCellAtEveryClock) {
  for (const double empty_s : {0.0, 2e-5}) {
    SCOPED_TRACE(empty_s);
    const Recording recording = with_empty_input_gradients({1000, 900, 800}, empty_s);
    const RecordedProfile recorded = profile_recordings(std::vector{recording}, {});
    EXPECT_THAT(recorded.warnings, Contains(HasSubstr("stage 0 input_gradient: takes almost no time")));
    const StageProfile profile = recorded.profile();
    const auto rows = profile.measurements(0, OpKind::input_gradient);
    ASSERT_EQ(rows.size(), 3);
    for (const Measurement& row : rows) {
      EXPECT_DOUBLE_EQ(row.time_s, 1e-6);
      EXPECT_DOUBLE_EQ(row.energy_j, 1e-6);
    }
    EXPECT_NEAR(profile.at_clock(0, OpKind::weight_gradient, 1000).energy_j, 400 * 0.1, 2);
    EXPECT_NO_THROW((void)read_profile_file(write_profile_file({.profile = profile}), "written"));
  }
}

TEST(ProfileRecordings, MeasuresInputGradientsThatTakeTime) {
  const Recording recording = with_empty_input_gradients({1000, 900, 800}, 0.04);
  const RecordedProfile recorded = profile_recordings(std::vector{recording}, {});
  EXPECT_THAT(recorded.warnings, testing::Not(Contains(HasSubstr("almost no time"))));
  EXPECT_NEAR(recorded.profile().at_clock(0, OpKind::input_gradient, 1000).energy_j, 400 * 0.04, 2);
}

TEST(ProfileRecordings, RefusesWhatDoesNotBelongTogether) {
  const auto error = [](std::vector<Recording> recordings, ProfilingOptions options = {}) {
    return error_of([&] { (void)profile_recordings(recordings, options); });
  };
  EXPECT_THAT(error({}), HasSubstr("no recording"));
  EXPECT_THAT(error({recorded(1), recorded(1)}), HasSubstr("rank 1 was recorded in another folder too"));
  Recording simulated = recorded(1);
  simulated.simulated = true;
  EXPECT_THAT(error({recorded(0), simulated}), HasSubstr("do not mix"));
  EXPECT_THAT(error({recorded(0)}, {.skipped_iterations = 60, .blocking_w = {}}), HasSubstr("no units are left"));
  Recording unlabelled = recorded(0);
  for (RecordedUnit& unit : unlabelled.units) unit.clock_mhz = 0;
  EXPECT_THAT(error({unlabelled}), HasSubstr("no clock was requested for any unit"));
  Recording blind = recorded(0);
  blind.samples.clear();
  EXPECT_THAT(error({blind}), HasSubstr("rank-0: the energy counter changed too seldom: 0 windows"));
}

/// At 1000 MHz, with the first three of each six iterations marked as settling, in which all takes twice as long and
/// draws other power than what counts.
Recording recorded_with_settling(unsigned seed) {
  MadeUpProcess process;
  process.power_w = {{{0, OpKind::forward, 1000}, 300},
                     {{0, OpKind::backward, 1000}, 400},
                     {{0, OpKind::forward, 500}, 150},
                     {{0, OpKind::backward, 500}, 170}};
  process.seed = seed;
  std::vector<int> clocks_mhz;
  for (int i = 0; i < 20; ++i) clocks_mhz.push_back(i % 2 == 0 ? 500 : 1000);
  Recording recording = process.record(clocks_mhz, 3, 8);
  for (RecordedUnit& unit : recording.units) {
    unit.settling = unit.clock_mhz == 500;
    unit.clock_mhz = 1000;  // what was asked for
  }
  return recording;
}

TEST(ProfileRecordings, LeavesOutIterationsInWhichClocksSettled) {
  const RecordedProfile profile =
      profile_recordings(std::vector{recorded_with_settling(3)}, {.skipped_iterations = 0, .blocking_w = {}});
  ASSERT_EQ(profile.cells.size(), 2);
  EXPECT_EQ(profile.cells[0].units, 10 * 3 * 8);
  EXPECT_NEAR(profile.cells[0].time_s, 0.05, 2e-4);
  EXPECT_NEAR(profile.cells[0].power_w, 300, 12);
  EXPECT_NEAR(profile.cells[1].power_w, 400, 12);
  Recording settling = recorded_with_settling(3);
  for (RecordedUnit& unit : settling.units) unit.settling = true;
  EXPECT_THAT(error_of([&] { (void)profile_recordings(std::vector{settling}, {}); }), HasSubstr("no units are left"));
}

TEST(ProfileRecordings, PutsThePartsOfAResumedJobTogether) {
  std::vector<Recording> parts = {recorded(0), recorded(1)};
  parts[1].rank = 0;
  parts[1].part = 1;
  Recording nothing;  // ended before its first unit
  nothing.part = 2;
  parts.push_back(nothing);
  const RecordedProfile profile = profile_recordings(parts, {});
  ASSERT_EQ(profile.cells.size(), 2);
  EXPECT_EQ(profile.cells[0].ranks, 1);
  EXPECT_EQ(profile.cells[0].units, 2 * 58 * 8) << "each part has its warm-up";
  EXPECT_NEAR(profile.cells[0].power_w, 300, 6);
  const auto error_w = [](const RecordedProfile& of) { return of.cells[0].energy_error_j; };
  EXPECT_LT(error_w(profile), error_w(profile_recordings(std::vector{recorded(0)}, {})));
}

TEST(ProfileRecordings, OfOneRankByItselfLacksNoOther) {
  Recording first_of_two = recorded(0);
  first_of_two.world_size = 2;
  EXPECT_THROW((void)profile_recordings(std::vector{first_of_two}, {}), InputError);
  const RecordedProfile profile = profile_one_rank(std::vector{first_of_two}, {});
  EXPECT_EQ(profile.cells.size(), 2);
  EXPECT_THAT(profile.blocking, SizeIs(1));
}

TEST(ProfileRecordings, WarnsOfARankThatDrawsOtherPowerThanOthers) {
  std::vector<Recording> ranks = {recorded(0), recorded(1), recorded(2)};
  EXPECT_THAT(profile_recordings(ranks, {}).warnings, Not(Contains(HasSubstr("draws"))));
  for (EnergySample& sample : ranks[1].samples) *sample.energy_j *= 0.57;
  EXPECT_THAT(profile_recordings(ranks, {}).warnings,
              Contains(AllOf(HasSubstr("rank 1 draws -4"), HasSubstr("in ops that other ranks run, too"))));
  // In a stage of its own.
  for (RecordedUnit& unit : ranks[1].units) unit.stage = 1;
  EXPECT_THAT(profile_recordings(ranks, {}).warnings,
              Contains(AllOf(HasSubstr("rank 1 draws -4"), HasSubstr("run in other stages"))));
}

TEST(ProfileRecordings, WarnsOfRanksWithFewerMicrobatches) {
  std::vector<Recording> ranks = {recorded(0), recorded(1)};
  std::erase_if(ranks[1].units, [](const RecordedUnit& unit) { return unit.microbatch == 7; });
  EXPECT_THAT(profile_recordings(ranks, {}).warnings,
              Contains(HasSubstr("rank 1: units of 7 microbatches in an iteration, and rank 0: of 8")));
}

TEST(ProfileRecordings, PutsEnergiesOfAnotherClockOnThatOfTheUnits) {
  for (const double shift_s : {-0.3, -0.1, 0.06, 0.3}) {
    SCOPED_TRACE(shift_s);
    Recording recording = recorded(0);
    for (EnergySample& sample : recording.samples) sample.time_s += shift_s;
    const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
    EXPECT_THAT(profile.warnings, Contains(HasSubstr("the clocks behind units.csv and energy.csv differ")));
    EXPECT_NEAR(profile.cells[0].power_w, 300, 9);
    EXPECT_NEAR(profile.cells[1].power_w, 400, 9);
  }
}

TEST(ProfileRecordings, FollowsAClockThatRunsAtAnotherSpeed) {
  Recording recording = recorded(0);
  for (EnergySample& sample : recording.samples) sample.time_s *= 1.004;
  const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
  EXPECT_THAT(profile.warnings,
              Contains(HasSubstr("s over the recording; the clocks behind units.csv and energy.csv differ")));
  EXPECT_NEAR(profile.cells[0].power_w, 300, 12);
  EXPECT_NEAR(profile.cells[1].power_w, 400, 12);
}

TEST(WriteBlockingPower, IsReadBack) {
  const std::vector<RecordedBlocking> blocking = {{0, 80.25, 1, true}, {1, 70, 1, true}};
  EXPECT_EQ(read_blocking_power(write_blocking_power(blocking), "b.csv", 2), (std::vector{80.25, 70.0}));
  EXPECT_THAT(error_of([] {
                (void)write_blocking_power(std::vector<RecordedBlocking>{{0, 80, 1, false}});
              }),
              HasSubstr("measure the blocking power separately"));
}

TEST(WriteBlockingPower, RefusesAPowerThatCannotBe) {
  const auto error = [](const RecordedBlocking& blocking) {
    return error_of([&] { (void)write_blocking_power(std::vector{blocking}); });
  };
  EXPECT_THAT(error({0, 14018.26, 6940.71, true, 500}), HasSubstr("waiting draws 14018 +-6941 W"));
  EXPECT_THAT(error({0, 100, 20.1, true, 500}), HasSubstr("too uncertain"));
  EXPECT_THAT(error({1, 510, 5, true, 500}), AllOf(HasSubstr("stage 1"), HasSubstr("computing draws 500 W at most")));
  EXPECT_EQ(error({0, 100, 19.9, true, 500}), "no error");
}

TEST(ProfileRecordings, WarnsOfAPowerOfWaitingThatCannotBe) {
  MadeUpProcess process;
  process.power_w = {{{0, OpKind::forward, 1000}, 300}, {{0, OpKind::backward, 1000}, 350}};
  process.blocking_w = 700;
  const RecordedProfile profile = profile_recordings(std::vector{process.record({1000}, 60, 8)}, {});
  ASSERT_EQ(profile.blocking.size(), 1);
  EXPECT_NEAR(profile.blocking[0].most_computing_w.value(), 350, 20);
  EXPECT_THAT(profile.warnings, Contains(AllOf(HasSubstr("stage 0: waiting draws"), HasSubstr("but computing draws"))));
}

TEST(ProfileRecordings, StatesThePowerOfWaitingByClock) {
  MadeUpProcess process;
  for (const int clock_mhz : {1400, 1000}) {
    process.power_w[{0, OpKind::forward, clock_mhz}] = clock_mhz / 4.0;
    process.power_w[{0, OpKind::backward, clock_mhz}] = clock_mhz / 3.0;
  }
  process.blocking_by_clock_w = {{1400, 120}, {1000, 70}};
  const RecordedProfile profile = profile_recordings(std::vector{process.record({1400, 1000}, 60, 8)}, {});
  ASSERT_EQ(profile.blocking.size(), 1);
  const std::map<int, double>& by_clock_w = profile.blocking[0].power_w_by_clock;
  ASSERT_EQ(by_clock_w.size(), 2);
  EXPECT_NEAR(by_clock_w.at(1400), 120, 6);
  EXPECT_NEAR(by_clock_w.at(1000), 70, 6);
  EXPECT_LT(by_clock_w.at(1000), profile.blocking[0].power_w);
  EXPECT_GT(by_clock_w.at(1400), profile.blocking[0].power_w);
}

TEST(ProfileRecordings, RepairsATopClockThatMeasuresSlowerThanTheNextByNoise) {
  MadeUpProcess process;
  for (const int clock_mhz : {1000, 1015, 1200, 1218}) {
    process.power_w[{0, OpKind::forward, clock_mhz}] = 300;
    process.power_w[{0, OpKind::backward, clock_mhz}] = 400;
  }
  Recording recording = process.record({1000, 1015, 1200, 1218}, 40, 8);
  // The forwards of the lower clock take 1 % less than those of the next higher one, not 1.5 % more.
  for (RecordedUnit& unit : recording.units) {
    const bool is_lower = unit.clock_mhz == 1000 || unit.clock_mhz == 1200;
    if (is_lower && unit.kind == OpKind::forward) unit.end_s -= 0.025 * 0.05 * 1000 / unit.clock_mhz;
  }
  const RecordedProfile profile = profile_recordings(std::vector{recording}, {});
  ASSERT_EQ(profile.cells.size(), 8);
  EXPECT_EQ(profile.cells[0].time_s, profile.cells[1].time_s);
  EXPECT_EQ(profile.cells[2].time_s, profile.cells[3].time_s);
  EXPECT_NEAR(profile.cells[0].time_s, 0.0490, 2e-4);
  EXPECT_NEAR(profile.cells[1].energy_j, profile.cells[1].power_w * profile.cells[1].time_s, 1e-9);
  EXPECT_GT(profile.cells[4].time_s, profile.cells[5].time_s) << "backwards were in order";
  EXPECT_THAT(profile.warnings,
              Contains(AllOf(HasSubstr("stage 0 forward"),
                             HasSubstr("their mean replaces the times of 1000, 1015 MHz; of 1200, 1218 MHz"))));
}

}  // namespace
}  // namespace lowgear::profile

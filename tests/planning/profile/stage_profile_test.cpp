#include "planning/profile/stage_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/units.h"
#include "planning/profile/profile_text.h"

namespace lowgear::profile {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(StageProfile, HoldsMeasurementsHighestClockFirst) {
  StageProfile profile(2);
  profile.add(1, OpKind::forward, {1200, 0.2, 20});
  profile.add(1, OpKind::forward, {1410, 0.1, 30});
  profile.add(1, OpKind::forward, {1305, 0.15, 25});
  EXPECT_EQ(clocks_of(profile, 1, OpKind::forward), (std::vector{1410, 1305, 1200}));
  EXPECT_EQ(profile.at_max_clock(1, OpKind::forward).energy_j, 30);
  EXPECT_EQ(profile.at_clock(1, OpKind::forward, 1200).time_s, 0.2);
  EXPECT_TRUE(profile.has(1, OpKind::forward));
  EXPECT_FALSE(profile.has(0, OpKind::forward));
  EXPECT_FALSE(profile.has(1, OpKind::backward));
}

TEST(StageProfile, HasNothingOutsideItsStages) {
  const StageProfile profile(2);
  EXPECT_TRUE(profile.measurements(-1, OpKind::forward).empty());
  EXPECT_TRUE(profile.measurements(2, OpKind::forward).empty());
  EXPECT_FALSE(profile.has(2, OpKind::forward));
  EXPECT_EQ(StageProfile().stages(), 0);
}

TEST(StageProfile, NamesWhatIsNotThere) {
  StageProfile profile(2);
  profile.add(1, OpKind::forward, {1410, 0.1, 30});
  profile.add(1, OpKind::forward, {1200, 0.2, 20});
  EXPECT_EQ(error_of([&] { (void)profile.at_clock(1, OpKind::forward, 1300); }),
            "the profile has no measurement of stage 1 forward at 1300 MHz; its clocks are 1410, 1200");
  EXPECT_EQ(error_of([&] { (void)profile.at_clock(0, OpKind::backward, 1300); }),
            "the profile has no measurement of stage 0 backward at 1300 MHz; its clocks are none");
  EXPECT_EQ(error_of([&] { (void)profile.at_max_clock(7, OpKind::forward); }),
            "the profile has no measurement of stage 7 forward");
}

TEST(StageProfile, RefusesAnAbsurdNumberOfStages) {
  EXPECT_THAT(error_of([] { StageProfile(2000000000); }), HasSubstr("give 0 to 65536"));
  EXPECT_THAT(error_of([] { StageProfile(-1); }), HasSubstr("give 0 to 65536"));
  EXPECT_EQ(StageProfile(kMaxStages).stages(), kMaxStages);
}

TEST(StageProfile, RefusesAStageOrClockThatCannotBeAdded) {
  StageProfile profile(1);
  profile.add(0, OpKind::forward, {1410, 0.1, 30});
  EXPECT_EQ(error_of([&] {
              profile.add(0, OpKind::forward, {1410, 0.2, 20});
            }),
            "stage 0 forward occurs twice at 1410 MHz");
  EXPECT_EQ(error_of([&] {
              profile.add(1, OpKind::forward, {1410, 0.2, 20});
            }),
            "stage 1 is not one of the profile's 1 stages");
  EXPECT_THAT(error_of([&] { profile.add(-1, OpKind::forward, {1410, 0.2, 20}); }), HasSubstr("stage -1"));
}

TEST(StageProfile, RefusesValuesThatCannotBeMeasured) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  StageProfile profile(1);
  const auto error_of_adding = [&](Measurement measurement) {
    return error_of([&] { profile.add(0, OpKind::forward, measurement); });
  };
  for (const int clock_mhz : {0, -1410, kMaxClockMhz + 1, std::numeric_limits<int>::max()}) {
    EXPECT_THAT(error_of_adding({clock_mhz, 0.1, 30}), StartsWith("stage 0 forward: frequency")) << clock_mhz;
  }
  for (const double time_s : {0.0, -0.1, kNan, kInfinity, -kInfinity, 1e-13, 1e-320, 2 * kMaxTimeS}) {
    EXPECT_THAT(error_of_adding({1410, time_s, 30}), StartsWith("stage 0 forward: time")) << time_s;
  }
  for (const double energy_j : {0.0, -0.1, kNan, kInfinity, -kInfinity, 2 * kMaxEnergyJ}) {
    EXPECT_THAT(error_of_adding({1410, 0.1, energy_j}), StartsWith("stage 0 forward: energy")) << energy_j;
  }
  EXPECT_FALSE(profile.has(0, OpKind::forward));
  profile.add(0, OpKind::forward, {kMaxClockMhz, kMaxTimeS, kMaxEnergyJ});
  profile.add(0, OpKind::forward, {1, 1e-12, 1e-9});
  EXPECT_EQ(profile.measurements(0, OpKind::forward).size(), 2);
}

TEST(WithSplitBackward, SplitsTimeAndEnergy) {
  const StageProfile profile = read_profile("0,forward,1410,0.1,30\n0,backward,1410,0.3,60\n0,backward,1200,0.4,50\n");
  const StageProfile split = with_split_backward(profile, 0.4);
  EXPECT_EQ(clocks_of(split, 0, OpKind::input_gradient), (std::vector{1410, 1200}));
  const Measurement& input = split.at_clock(0, OpKind::input_gradient, 1410);
  const Measurement& weight = split.at_clock(0, OpKind::weight_gradient, 1410);
  EXPECT_DOUBLE_EQ(input.time_s, 0.12);
  EXPECT_DOUBLE_EQ(input.energy_j, 24);
  EXPECT_DOUBLE_EQ(input.time_s + weight.time_s, 0.3);
  EXPECT_DOUBLE_EQ(input.energy_j + weight.energy_j, 60);
  EXPECT_EQ(split.at_clock(0, OpKind::backward, 1200).energy_j, 50) << "the whole backward pass stays";
  EXPECT_EQ(split.at_clock(0, OpKind::forward, 1410).time_s, 0.1);
}

TEST(WithSplitBackward, KeepsWhatWasMeasuredSplit) {
  const StageProfile profile = read_profile(
      "0,forward,1410,0.1,30\n0,backward,1410,0.3,60\n0,input_gradient,1410,0.2,41\n0,weight_gradient,1410,0.1,17\n");
  EXPECT_EQ(with_split_backward(profile, 0.5), profile);
}

TEST(WithSplitBackward, RefusesAFractionThatIsNone) {
  const StageProfile profile(1);
  for (const double fraction : {0.0, 1.0, -0.5, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(error_of([&] { (void)with_split_backward(profile, fraction); }), HasSubstr("between 0 and 1"));
  }
}

TEST(WithRecomputation, IsAShareOfTheForward) {
  const StageProfile profile =
      read_profile("0,forward,1410,0.1,30\n0,forward,1200,0.2,20\n0,backward,1410,0.3,60\n0,backward,1110,0.4,50\n");
  const StageProfile with = with_recomputation(profile, 0.9);
  EXPECT_DOUBLE_EQ(with.at_clock(0, OpKind::recomputation, 1200).time_s, 0.18);
  EXPECT_DOUBLE_EQ(with.at_clock(0, OpKind::recomputation, 1410).energy_j, 27);
  EXPECT_EQ(clocks_of(with, 0, OpKind::recomputing_backward), (std::vector{1410})) << "the clocks that both have";
  EXPECT_DOUBLE_EQ(with.at_clock(0, OpKind::recomputing_backward, 1410).time_s, 0.39);
  EXPECT_DOUBLE_EQ(with.at_clock(0, OpKind::recomputing_backward, 1410).energy_j, 87);
  EXPECT_EQ(with.at_clock(0, OpKind::backward, 1410).time_s, 0.3) << "the backward does not recompute";
}

TEST(WithRecomputation, KeepsWhatWasMeasured) {
  const StageProfile profile =
      read_profile("0,forward,1410,0.1,30\n0,backward,1410,0.3,60\n0,recomputation,1410,0.08,25\n");
  for (const std::optional<double> share : {std::optional<double>(), std::optional(1.0)}) {
    const StageProfile with = with_recomputation(profile, share);
    EXPECT_EQ(with.at_clock(0, OpKind::recomputation, 1410).time_s, 0.08);
    EXPECT_DOUBLE_EQ(with.at_clock(0, OpKind::recomputing_backward, 1410).energy_j, 85);
  }
  const StageProfile whole =
      read_profile("0,forward,1410,0.1,30\n0,backward,1410,0.3,60\n0,recomputing_backward,1410,0.5,70\n");
  EXPECT_EQ(with_recomputation(whole, 1).at_clock(0, OpKind::recomputing_backward, 1410).time_s, 0.5);
  const StageProfile plain = read_profile("0,forward,1410,0.1,30\n0,backward,1410,0.3,60\n");
  EXPECT_EQ(with_recomputation(plain, std::nullopt), plain);
}

TEST(WithRecomputation, RefusesAShareThatIsNone) {
  for (const double share : {0.0, -0.5, 10.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(error_of([&] { (void)with_recomputation(StageProfile(1), share); }), HasSubstr("at most 10"));
  }
}

TEST(StageProfileOps, AreThoseThatHaveRowsStageByStage) {
  StageProfile profile(3);
  profile.add(2, OpKind::forward, {900, 2, 100});
  profile.add(0, OpKind::backward, {1200, 1, 100});
  profile.add(2, OpKind::forward, {1200, 1, 100});
  const std::vector<StageOp> ops = profile.ops();
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].stage, 0);
  EXPECT_EQ(ops[0].kind, OpKind::backward);
  EXPECT_EQ(ops[1].stage, 2);
  EXPECT_EQ(ops[1].kind, OpKind::forward);
  ASSERT_EQ(ops[1].measurements.size(), 2u);
  EXPECT_EQ(ops[1].measurements[0].clock_mhz, 1200);
}

TEST(SettingsOfAProfile, StayInProfilesMadeFromIt) {
  const StageProfile profile = read_profile_file(kWithSettings, "p.csv").profile;
  EXPECT_EQ(with_stages_on_ranks(profile, std::vector{0, 0}).at_setting(1, OpKind::forward, 1400, "sm3").time_s, 0.06);
  const StageProfile reduced = at_fastest_settings(profile);
  EXPECT_EQ(clocks_of(reduced, 0, OpKind::forward), (std::vector{1400, 1000}));
  EXPECT_EQ(reduced.at_max_clock(0, OpKind::forward).setting, "sm12");
  EXPECT_THAT(lowgear::error_of([&] { refuse_settings(profile, "lowgear profile --fill"); }),
              StartsWith("lowgear profile --fill works on clocks alone, and the profile has settings"));
}

TEST(StagesOnRanks, ArePartsOfTheirRanksStage) {
  StageProfile profile(2);
  profile.add(0, OpKind::forward, {1000, 0.06, 6});
  profile.add(0, OpKind::backward, {1000, 0.12, 12});
  profile.add(1, OpKind::forward, {1000, 0.08, 8});
  profile.add(1, OpKind::backward, {1000, 0.16, 16});
  const std::vector<int> v_shaped{0, 1, 1, 0};
  const StageProfile parts = with_stages_on_ranks(profile, v_shaped);
  ASSERT_EQ(parts.stages(), 4);
  EXPECT_DOUBLE_EQ(parts.at_max_clock(0, OpKind::forward).time_s, 0.03);
  EXPECT_DOUBLE_EQ(parts.at_max_clock(2, OpKind::backward).energy_j, 8);
  EXPECT_DOUBLE_EQ(parts.at_max_clock(3, OpKind::forward).energy_j, 3);
  EXPECT_EQ(with_stages_on_ranks(profile, std::vector{0, 1}), profile);
}

TEST(StagesOnRanks, RefuseARankThatWasNotProfiled) {
  const StageProfile profile(2);
  EXPECT_THAT(error_of([&] { (void)with_stages_on_ranks(profile, std::vector<int>{0, 2}); }), HasSubstr("rank 2"));
  EXPECT_THAT(error_of([&] { (void)with_stages_on_ranks(profile, std::vector<int>{-1}); }), HasSubstr("rank -1"));
  EXPECT_THAT(error_of([&] { (void)with_stages_on_ranks(profile, std::vector<int>(kMaxStages + 1)); }),
              HasSubstr("at most 65536"));
}

TEST(SettingsOfAProfile, AreRowsOfTheirOwn) {
  const StageProfile profile = read_profile_file(kWithSettings, "p.csv").profile;
  EXPECT_TRUE(profile.has_settings());
  EXPECT_EQ(clocks_of(profile, 0, OpKind::forward), (std::vector{1400, 1400, 1000}));
  EXPECT_EQ(profile.at_setting(0, OpKind::forward, 1400, "sm3").time_s, 0.12);
  EXPECT_EQ(profile.find(0, OpKind::forward, 1000, "sm3"), nullptr);
  EXPECT_EQ(profile.at_max_clock(0, OpKind::forward).setting, "sm12") << "the fastest";
  EXPECT_EQ(profile.at_clock(0, OpKind::forward, 1400).setting, "sm12");
  EXPECT_THAT(lowgear::error_of([&] { (void)profile.at_setting(0, OpKind::forward, 1400, "sm6"); }),
              HasSubstr("no measurement of stage 0 forward at 1400 MHz with setting sm6"));
}

TEST(SettingsOfAProfile, OccurOnceAtAClock) {
  EXPECT_THAT(lowgear::error_of([] {
                (void)read_profile_file(std::string(kWithSettings) + "0,forward,1400,0.11,25,sm3\n", "p.csv");
              }),
              StartsWith("p.csv:6: stage 0 forward at 1400 MHz with setting sm3 is measured in line 2 already"));
  StageProfile profile(1);
  profile.add(0, OpKind::forward, {1400, 1, 1, "a"});
  EXPECT_THAT(lowgear::error_of([&] {
                profile.add(0, OpKind::forward, {1400, 2, 1, "a"});
              }),
              HasSubstr("occurs twice at 1400 MHz with setting a"));
}

TEST(SettingsOfAProfile, AreNamesAndNotTooMany) {
  EXPECT_THAT(lowgear::error_of([] {
                (void)read_profile_file(std::string(kWithSettings) + "0,forward,1000,0.11,25,<b>\n", "p.csv");
              }),
              StartsWith("p.csv:6:24: the setting"));
  StageProfile profile(1);
  for (std::size_t i = 0; i < kMaxSettings; ++i) profile.add(0, OpKind::forward, {1, 1, 1, "s" + std::to_string(i)});
  EXPECT_THAT(lowgear::error_of([&] {
                profile.add(0, OpKind::forward, {1, 1, 1, "more"});
              }),
              HasSubstr("more than 1024 settings"));
}

}  // namespace
}  // namespace lowgear::profile

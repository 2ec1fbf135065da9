#include "planning/profile/compose/composed_profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/row_check.h"

namespace lowgear::profile {

namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kHeader = "stage,instruction,part,frequency,setting,time,energy,count\n";

PartTable read(const std::string& rows) { return read_part_table(std::string(kHeader) + rows, "parts.csv"); }

std::string refusal(const std::string& rows) {
  return error_of([&] { (void)read(rows); });
}

TEST(PartTable, HasThePartsOfEveryClockInTheOrderOfTheFile) {
  const PartTable table = read(
      "0,forward,mlp,1410,sm6,0.02,6,2\n"
      "0,forward,mlp,1410,sm3,0.03,5,2\n"
      "0,forward,attn,1410,,0.01,2,1\n"
      "0,forward,mlp,900,sm6,0.04,5,2\n"
      "0,forward,attn,900,,0.015,1.5,1\n"
      "0,forward,launch,,,0.001,0.1,1\n");
  ASSERT_EQ(table.size(), 2);
  const std::vector<SeriesPart>& fast = table.at({0, OpKind::forward, 1410});
  ASSERT_EQ(fast.size(), 3);
  EXPECT_EQ(fast[0].name, "mlp");
  EXPECT_EQ(fast[0].count, 2);
  EXPECT_EQ(fast[0].options.size(), 2);
  EXPECT_EQ(fast[1].name, "attn");
  EXPECT_EQ(fast[2].options.front().time_s, 0.001);
  const std::vector<SeriesPart>& slow = table.at({0, OpKind::forward, 900});
  EXPECT_EQ(slow[0].options.front().time_s, 0.04);
  EXPECT_EQ(slow[2].options.front().time_s, 0.001);
}

TEST(PartTable, ReadsFilesWithoutCounts) {
  const PartTable table =
      read_part_table("stage,instruction,part,frequency,setting,time,energy\n0,backward,a,1000,x,1,2\n", "parts.csv");
  EXPECT_EQ(table.begin()->second.front().count, 1);
}

TEST(PartTable, RefusesAPartThatLacksAClock) {
  EXPECT_THAT(refusal("0,forward,a,1410,,1,2,1\n0,forward,a,900,,2,1,1\n0,forward,b,1410,,1,2,1\n"),
              StartsWith("parts.csv:3: part b of stage 0 forward has no row at 900 MHz, where part a has one"));
  EXPECT_THAT(refusal("0,forward,a,1410,,1,2,1\n0,forward,b,900,,1,2,1\n"), HasSubstr("has no row at"));
}

TEST(PartTable, RefusesWhatNoGpuCanHaveMeasured) {
  const std::string clocked = "0,forward,mlp,1410,,0.02,6,1\n";
  EXPECT_THAT(refusal(clocked + "0,forward,launch,,,0.001,100,1\n"),
              StartsWith("parts.csv:3: part launch of stage 0 forward at every clock draws 100000 W"));
  EXPECT_THAT(refusal(clocked + "0,forward,launch,,,0.00001,1,1\n"), HasSubstr("draws 100000 W"));
  EXPECT_THAT(refusal(clocked + "0,forward,launch,,,0.1,0.01,1\n"), HasSubstr("draws 0.1 W"));
  EXPECT_THAT(refusal("0,forward,mlp,14100,,0.02,6,1\n"), HasSubstr("14100 is not in 50 to 5000"));
  EXPECT_EQ(refusal(clocked + "0,forward,launch,,,0.001,0,1\n0,forward,nothing,,,0,0,1\n"), "no error");
}

TEST(PartTable, RefusesValuesOutOfRange) {
  EXPECT_THAT(refusal("0,forward,a,1410,,-1,2,1\n"), StartsWith("parts.csv:2:19: -1 is not in 0 to"));
  EXPECT_THAT(refusal("0,forward,a,1410,,1,-2,1\n"), HasSubstr("-2 is not in 0 to"));
  EXPECT_THAT(refusal("0,forward,a,1410,,nan,2,1\n"), StartsWith("parts.csv:2:"));
  EXPECT_THAT(refusal("0,forward,a,0,,1,2,1\n"), HasSubstr("0 is not in 50 to"));
  EXPECT_THAT(refusal("-1,forward,a,1410,,1,2,1\n"), HasSubstr("-1 is not in 0 to"));
  EXPECT_THAT(refusal("0,forward,a,1410,,1,2,0\n"), HasSubstr("0 is not in 1 to"));
  EXPECT_THAT(refusal("0,load,a,1410,,1,2,1\n"), HasSubstr("unknown instruction"));
  EXPECT_THAT(refusal("0,forward,,1410,,1,2,1\n"), HasSubstr("a part's name"));
  EXPECT_THAT(refusal(""), HasSubstr("holds no parts"));
}

TEST(PartTable, RefusesNamesThatCouldNotBeTakenApartAgain) {
  EXPECT_THAT(refusal("0,forward,a=b,1410,,1,2,1\n"), HasSubstr("has = or ;"));
  EXPECT_THAT(refusal("0,forward,a,1410,x;y,1,2,1\n"), HasSubstr("has = or ;"));
  EXPECT_THAT(refusal("0,forward,a,1410,<b>,1,2,1\n"), HasSubstr("a character that is not allowed"));
}

TEST(PartTable, RefusesContradictions) {
  EXPECT_THAT(refusal("0,forward,a,1410,x,1,2,1\n0,forward,a,1410,x,1,2,1\n"),
              StartsWith("parts.csv:3: part a of stage 0 forward at 1410 MHz with setting x is measured in line 2"));
  EXPECT_THAT(refusal("0,forward,a,1410,x,1,2,1\n0,forward,a,900,x,2,1,2\n"),
              StartsWith("parts.csv:3: part a of stage 0 forward has count 2 here and 1 in line 2"));
  EXPECT_THAT(refusal("0,forward,a,1410,,1,2,1\n0,forward,a,,,1,2,1\n"),
              StartsWith("parts.csv:3: part a of stage 0 forward has rows with a frequency and rows without one"));
  EXPECT_THAT(refusal("0,forward,a,,,1,2,1\n"), HasSubstr("its clocks are unknown"));
}

TEST(PartTable, RefusesOptionsThatAreSlowerAtAHigherClock) {
  EXPECT_THAT(
      refusal("0,forward,a,900,x,1,2,1\n0,forward,a,1410,x,1.1,3,1\n"),
      StartsWith("parts.csv:3: part a of stage 0 forward with setting x takes 1.1 s at 1410 MHz, longer than the "
                 "1 s at 900 MHz"));
  EXPECT_EQ(read("0,forward,a,900,x,1,2,1\n0,forward,a,1410,x,1.01,3,1\n").size(), 2);  // noise
}

using testing::HasSubstr;

/// Two parts with three options each, at two clocks.
std::string parts_csv() {
  std::string text = "stage,instruction,part,frequency,setting,time,energy\n";
  for (const std::string_view instruction : {"forward", "backward"}) {
    for (const int clock_mhz : {1400, 1000}) {
      for (const std::string_view part : {"attn", "mlp"}) {
        for (const int sm : {3, 6, 12}) {
          const double time_s = (0.01 + 0.03 / sm) * 1400 / clock_mhz;
          const double energy_j = (2 + 0.1 * sm * sm) * clock_mhz / 1400 * (part == "mlp" ? 1.5 : 1);
          text += fmt::format("0,{},{},{},sm{},{},{}\n", instruction, part, clock_mhz, sm, time_s, energy_j);
        }
      }
    }
  }
  return text;
}

TEST(ComposedProfile, IsAProfileWithTheSettingsOfItsParts) {
  const ComposedProfile composed = compose_profile(read_part_table(parts_csv(), "parts.csv"), {});
  const auto rows = composed.profile.measurements(0, OpKind::forward);
  ASSERT_EQ(rows.size(), 10);  // five vertices at each clock
  EXPECT_EQ(rows.front().clock_mhz, 1400);
  EXPECT_EQ(rows.front().setting, "attn=sm12;mlp=sm12");
  EXPECT_DOUBLE_EQ(rows.front().time_s, 0.025);
  EXPECT_DOUBLE_EQ(rows.front().energy_j, 16.4 * 2.5);
  EXPECT_EQ(rows.back().setting, "attn=sm3;mlp=sm3");
  const StageProfile read =
      read_profile_file(write_profile_file({.profile = composed.profile}), "composed.csv").profile;
  EXPECT_EQ(write_profile_file({.profile = read}), write_profile_file({.profile = composed.profile}));
  ASSERT_EQ(composed.cells.size(), 4);
  EXPECT_EQ(composed.cells.front().combinations, 9);
  EXPECT_EQ(composed.cells.front().vertices, 5);
}

TEST(ComposedProfile, HasNoMoreOptionsThanAskedFor) {
  const ComposedProfile composed =
      compose_profile(read_part_table(parts_csv(), "parts.csv"), {.max_options = 2, .blocking_power_w = 80});
  EXPECT_EQ(composed.profile.measurements(0, OpKind::forward).size(), 4);
  EXPECT_GT(composed.cells.front().gap.thinned, 0);
}

TEST(ComposedProfile, HasNoSettingsWhereNoPartHas) {
  const ComposedProfile composed = compose_profile(
      read_part_table(
          "stage,instruction,part,frequency,setting,time,energy\n0,forward,a,900,,1,2\n0,forward,b,900,,1,2\n",
          "parts.csv"),
      {});
  EXPECT_FALSE(composed.profile.has_settings());
  EXPECT_EQ(write_profile_file({.profile = composed.profile}),
            "stage,instruction,frequency,time,energy\n0,forward,900,2,4\n");
}

TEST(ComposedProfile, RefusesSettingsThatBecomeTooLong) {
  std::string text = "stage,instruction,part,frequency,setting,time,energy\n";
  for (int part = 0; part < 20; ++part) text += fmt::format("0,forward,p{},900,{:0>60},1,2\n", part, part);
  EXPECT_THAT(error_of([&] { (void)compose_profile(read_part_table(text, "parts.csv"), {}); }),
              HasSubstr(fmt::format("characters is longer than {}", kMaxSettingBytes)));
}

TEST(ComposedProfile, RefusesOpsThatTakeNoTime) {
  EXPECT_THAT(
      error_of([] {
        (void)compose_profile(
            read_part_table("stage,instruction,part,frequency,setting,time,energy\n0,forward,a,900,,0,0\n", "p"), {});
      }),
      HasSubstr("time 0 s is not in"));
}

}  // namespace

}  // namespace lowgear::profile

#include "planning/profile/compose/composed_profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "planning/profile/setting.h"

namespace lowgear::profile {
namespace {

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
  const StageProfile read = read_stage_profile(write_stage_profile(composed.profile), "composed.csv");
  EXPECT_EQ(write_stage_profile(read), write_stage_profile(composed.profile));
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
  EXPECT_EQ(write_stage_profile(composed.profile), "stage,instruction,frequency,time,energy\n0,forward,900,2,4\n");
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

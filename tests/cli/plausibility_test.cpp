#include "cli/plausibility.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lowgear {
namespace {

using ::testing::HasSubstr;

/// One stage of 50 and 100 ms at 300 W, in the units that the factors make of them.
StageProfile profile_in(double time_factor, double energy_factor) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (const auto& [instruction, time_s] : {std::pair{"forward", 0.05}, std::pair{"backward", 0.1}}) {
    csv += fmt::format("0,{},1400,{},{}\n", instruction, time_s * time_factor, 300 * time_s * energy_factor);
  }
  return read_stage_profile(csv, "profile.csv");
}

std::string warning(double time_factor, double energy_factor, const std::vector<double>& blocking_power_w) {
  return unit_warning(profile_in(time_factor, energy_factor), blocking_power_w).value_or("");
}

TEST(Plausibility, SaysNothingOfSecondsJoulesAndWatts) {
  EXPECT_EQ(warning(1, 1, {}), "");
  EXPECT_EQ(warning(1, 1, {75, 80}), "");
  EXPECT_EQ(warning(1, 1, {0}), "") << "blocking power may be left out of account";
}

TEST(Plausibility, NamesTheLikelyUnitOfAProfile) {
  EXPECT_THAT(warning(1e3, 1, {75}), HasSubstr("times look like milliseconds"));
  EXPECT_THAT(warning(1e6, 1, {75}), HasSubstr("times look like microseconds"));
  EXPECT_THAT(warning(1, 1e3, {75}), HasSubstr("energies look like millijoules"));
  EXPECT_THAT(warning(1e3, 1e3, {75}), HasSubstr("milliseconds and millijoules"));
}

TEST(Plausibility, NamesTheLikelyUnitOfBlockingPower) {
  EXPECT_THAT(warning(1, 1, {75, 75000}), HasSubstr("milliwatts"));
  EXPECT_THAT(warning(1, 1, {0.075}), HasSubstr("kilowatts"));
  EXPECT_THAT(warning(1, 1, {400}), HasSubstr("draws less than one that computes"));
}

}  // namespace
}  // namespace lowgear

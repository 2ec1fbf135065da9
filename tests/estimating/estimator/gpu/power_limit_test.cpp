#include "estimating/estimator/gpu/power_limit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lowgear::estimator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// One stage of 50 and 100 ms at 300 W, in the units that the factors make of them.
profile::StageProfile profile_in(double time_factor, double energy_factor) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (const auto& [instruction, time_s] : {std::pair{"forward", 0.05}, std::pair{"backward", 0.1}}) {
    csv += fmt::format("0,{},1400,{},{}\n", instruction, time_s * time_factor, 300 * time_s * energy_factor);
  }
  return profile::read_stage_profile(csv, "profile.csv");
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

TEST(Plausibility, KnowsThePowerLimitOfAGpuByBothItsNames) {
  const auto limit_w = [](const char* name) {
    return power_limit_of(name).value_or(profile::NamedPowerLimit{}).limit_w;
  };
  EXPECT_EQ(limit_w("NVIDIA H100 80GB HBM3"), 700);
  EXPECT_EQ(limit_w("NVIDIA H100 PCIe"), 350);
  EXPECT_EQ(limit_w("NVIDIA H200"), 700);
  EXPECT_EQ(limit_w("NVIDIA A100-SXM4-80GB"), 400);
  EXPECT_EQ(limit_w("NVIDIA A100 80GB PCIe"), 300);
  EXPECT_EQ(limit_w("NVIDIA A40"), 300);
  EXPECT_EQ(limit_w("h100-sxm"), 700);
  EXPECT_EQ(limit_w("H100 SXM"), 700);
  EXPECT_EQ(limit_w("h100"), 700);
  for (const char* unknown : {"", "NVIDIA A400", "NVIDIA H200 NVL", "NVIDIA H100 NVL", "NVIDIA A100-PCIE-40GB"}) {
    EXPECT_EQ(power_limit_of(unknown), std::nullopt) << unknown;
  }
}

TEST(Plausibility, HoldsPowersAgainstTheLimitOfTheGpu) {
  const auto on_a40 = [](double energy_factor) {
    return unit_warning(profile_in(1, energy_factor), {}, power_limit_of("NVIDIA A40")).value_or("");
  };
  EXPECT_EQ(on_a40(1), "") << "300 W of 300 W";
  EXPECT_EQ(on_a40(1.1), "") << "a limit is overshot for a moment";
  EXPECT_THAT(on_a40(8), AllOf(HasSubstr("its ops draw 2400 W"), HasSubstr("the power limit of NVIDIA A40 (300 W)"),
                               HasSubstr("those of several GPUs together: give the joules of one")));
  EXPECT_THAT(on_a40(1e3), AllOf(HasSubstr("the power limit of NVIDIA A40"), HasSubstr("look like millijoules")));
  EXPECT_EQ(warning(1, 8, {}), "") << "some GPU may draw 2400 W";
}

TEST(Plausibility, HoldsTheHighestPowerAgainstTheLimitOfTheGpu) {
  const profile::StageProfile profile = profile::read_stage_profile(
      "stage,instruction,frequency,time,energy\n0,forward,1400,0.1,90\n0,forward,1200,0.1,20\n"
      "0,backward,1400,0.2,50\n0,backward,1200,0.2,40\n",
      "profile.csv");
  EXPECT_EQ(unit_warning(profile, {}), std::nullopt);
  EXPECT_THAT(unit_warning(profile, {}, power_limit_of("h100")).value_or(""),
              AllOf(HasSubstr("900 W"), HasSubstr("the highest")));
}

TEST(Plausibility, NamesTheLikelyUnitOfBlockingPower) {
  EXPECT_THAT(warning(1, 1, {75, 75000}), HasSubstr("milliwatts"));
  EXPECT_THAT(warning(1, 1, {0.075}), HasSubstr("kilowatts"));
  EXPECT_THAT(warning(1, 1, {400}), HasSubstr("draws less than one that computes"));
}

}  // namespace
}  // namespace lowgear::estimator

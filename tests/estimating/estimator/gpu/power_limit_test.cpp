#include "estimating/estimator/gpu/power_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error.h"

namespace lowgear::estimator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// One stage of 50 and 100 ms at 300 W, in the units that the factors make of them.
profile::StageProfile profile_in(double time_factor, double energy_factor) {
  profile::StageProfile profile(1);
  for (const auto& [kind, time_s] : {std::pair{OpKind::forward, 0.05}, std::pair{OpKind::backward, 0.1}}) {
    profile.add(0, kind, {1400, time_s * time_factor, 300 * time_s * energy_factor});
  }
  return profile;
}

/// The doubts, or the refusal.
std::string doubts_of(const profile::StageProfile& profile, const profile::ProfileContext& context) {
  try {
    return fmt::format("{}", fmt::join(profile_doubts(profile, context), "\n"));
  } catch (const InputError& error) {
    return fmt::format("refused: {}", error.what());
  }
}

std::string doubt(double time_factor, double energy_factor, const std::vector<double>& blocking_power_w) {
  return doubts_of(profile_in(time_factor, energy_factor), {.source = "p.csv", .blocking_power_w = blocking_power_w});
}

TEST(Plausibility, SaysNothingOfSecondsJoulesAndWatts) {
  EXPECT_EQ(doubt(1, 1, {}), "");
  EXPECT_EQ(doubt(1, 1, {75, 80}), "");
  EXPECT_EQ(doubt(1, 1, {0}), "") << "blocking power may be left out of account";
}

TEST(Plausibility, NamesTheLikelyUnitOfAProfile) {
  EXPECT_THAT(doubt(1e3, 1, {75}),
              AllOf(StartsWith("refused: p.csv: check the units"), HasSubstr("times look like milliseconds")));
  EXPECT_THAT(doubt(1e6, 1, {75}), HasSubstr("times look like microseconds"));
  EXPECT_THAT(doubt(1, 1e3, {75}), AllOf(StartsWith("refused: p.csv: "), HasSubstr("energies look like millijoules")));
  EXPECT_THAT(doubt(1e3, 1e3, {75}), HasSubstr("milliseconds and millijoules"));
  EXPECT_THAT(doubt(1e6, 1e3, {75}), AllOf(StartsWith("refused: "), HasSubstr("microseconds and millijoules")));
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
    return doubts_of(profile_in(1, energy_factor), {.gpu = power_limit_of("NVIDIA A40")});
  };
  EXPECT_EQ(on_a40(1), "") << "300 W of 300 W";
  EXPECT_EQ(on_a40(1.1), "") << "a limit is overshot for a moment";
  EXPECT_THAT(on_a40(1.5), StartsWith("check the units of the profile: its ops draw 450 W"));
  EXPECT_THAT(on_a40(8), AllOf(StartsWith("refused: "), HasSubstr("its ops draw 2400 W"),
                               HasSubstr("the power limit of NVIDIA A40 (300 W)"),
                               HasSubstr("those of several GPUs together: give the joules of one")));
  EXPECT_THAT(on_a40(1e3), AllOf(HasSubstr("the power limit of NVIDIA A40"), HasSubstr("look like millijoules")));
  EXPECT_EQ(doubt(1, 8, {}), "") << "some GPU may draw 2400 W";
}

TEST(Plausibility, NamesTheLikelyUnitOfBlockingPower) {
  EXPECT_THAT(doubt(1, 1, {75, 75000}), HasSubstr("milliwatts"));
  EXPECT_THAT(doubt(1, 1, {0.075}), HasSubstr("kilowatts"));
  EXPECT_THAT(doubt(1, 1, {400}), HasSubstr("draws less than one that computes"));
}

}  // namespace
}  // namespace lowgear::estimator

#include "planning/adapt/precision_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace lowgear::adapt {
namespace {

using testing::HasSubstr;

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
constexpr double kMarginPct = 0.5;

/// Pairs in which fp8 takes so many times the energy and the time of bf16 and has so many times its loss.
std::vector<PrecisionPair> pairs(const std::vector<double>& energies, double time = 1, double loss = 1) {
  std::vector<PrecisionPair> pairs;
  double level = 100;
  for (const double energy : energies) {
    level *= 1.1;  // the machine drifts
    pairs.push_back({.bf16 = {10, level, 2}, .fp8 = {10 * time, level * energy, 2 * loss}});
  }
  return pairs;
}

TEST(PrecisionChoice, TakesFp8WhereItSavesEnergyAtTheSameLoss) {
  const PrecisionChoice choice = choose_precision(pairs({0.84, 0.85, 0.86}, 1, 1.001), kMarginPct);
  EXPECT_TRUE(choice.fp8);
  // The mean of the logarithms +- 4.303 (Student's t of 2 degrees of freedom) x 0.011765 / sqrt(3), by hand.
  EXPECT_THAT(choice.reason, HasSubstr("3 pairs of blocks: J/token -15.00 % (-17.45 to -12.48), loss +0.10 %"));
}

TEST(PrecisionChoice, KeepsBf16WithoutAShownSaving) {
  EXPECT_FALSE(choose_precision(pairs({0.8, 1.1, 0.9}), kMarginPct).fp8);
  EXPECT_THAT(choose_precision(pairs({0.8, 1.1, 0.9}), kMarginPct).reason, HasSubstr("no saving is shown"));
  EXPECT_FALSE(choose_precision(pairs({1.2, 1.21, 1.2}), kMarginPct).fp8);
  // Less time alone does not count where energy is known.
  EXPECT_FALSE(choose_precision(pairs({1.01, 1.01, 1.01}, 0.8), kMarginPct).fp8);
}

TEST(PrecisionChoice, KeepsBf16WithoutAShownLoss) {
  const PrecisionChoice worse = choose_precision(pairs({0.8, 0.8, 0.8}, 1, 1.006), kMarginPct);
  EXPECT_FALSE(worse.fp8);
  EXPECT_THAT(worse.reason, HasSubstr("the loss is not shown to stay within +0.5 %"));
  EXPECT_TRUE(choose_precision(pairs({0.8, 0.8, 0.8}, 1, 1.006), 1).fp8);
  std::vector<PrecisionPair> scattered = pairs({0.8, 0.8, 0.8});
  scattered[1].fp8.loss *= 1.02;
  EXPECT_FALSE(choose_precision(scattered, kMarginPct).fp8) << "the mean alone does not count";
  scattered[1].fp8.loss = kNotMeasured;
  EXPECT_EQ(choose_precision(scattered, kMarginPct).reason, "a loss is not a number");
}

TEST(PrecisionChoice, GoesByTimeWhereEnergyIsNotMeasured) {
  std::vector<PrecisionPair> measured = pairs({2, 2, 2}, 0.8);
  measured[0].bf16.energy_j = kNotMeasured;
  const PrecisionChoice choice = choose_precision(measured, kMarginPct);
  EXPECT_TRUE(choice.fp8);
  EXPECT_THAT(choice.reason, HasSubstr("time per token (no energy was measured) -20.00 %"));
}

TEST(PrecisionChoice, NeedsTwoPairs) {
  EXPECT_FALSE(choose_precision(pairs({0.5}), kMarginPct).fp8);
  EXPECT_FALSE(choose_precision({}, kMarginPct).fp8);
}

}  // namespace
}  // namespace lowgear::adapt

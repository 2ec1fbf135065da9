#include "planning/planner/verifier/pipeline.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "planning/planner/exact_units.h"
#include "planning/planner/frontier/instance.h"
#include "planning/planner/random_instances.h"
#include "planning/profile/options.h"

namespace lowgear::planner::verifier {
namespace {

/// Of a double that holds energies of some hundred joules.
constexpr double kRounding = 1e-11;

TEST(CostCurve, IsTheLowerHullOfEffectiveEnergies) {
  // With 10 W: effective energies 190, 150 and 90 J at 1, 2 and 4 s; 155 J at 3 s is above the line, 200 J at 5 s
  // costs.
  const std::vector<profile::Measurement> measured{
      {1400, 1, 200}, {1200, 2, 170}, {1100, 3, 185}, {1000, 4, 130}, {900, 5, 250}};
  const CostCurve curve(measured, 10);
  EXPECT_EQ(curve.fastest_ps(), kSecond);
  EXPECT_EQ(curve.slowest_ps(), 4 * kSecond);
  EXPECT_NEAR(j_from_zj(curve.energy_zj(kSecond)), 190, kRounding);
  EXPECT_NEAR(j_from_zj(curve.energy_zj(kSecond + kSecond / 2)), 170, kRounding);
  EXPECT_NEAR(j_from_zj(curve.energy_zj(3 * kSecond)), 120, kRounding);
  EXPECT_NEAR(j_from_zj(curve.energy_zj(4 * kSecond)), 90, kRounding);
}

TEST(CostCurve, FindsTheLeastAtAPriceOfTime) {
  const std::vector<profile::Measurement> measured{{1400, 1, 200}, {1200, 2, 170}, {1000, 4, 130}};
  const CostCurve curve(measured, 10);
  EXPECT_NEAR(j_from_zj(curve.least_at_price_zj(0)), 90, kRounding);
  EXPECT_NEAR(j_from_zj(curve.least_at_price_zj(20 * kWatt)), (90 + 4 * 20), kRounding);
  EXPECT_NEAR(j_from_zj(curve.least_at_price_zj(35 * kWatt)), (150 + 2 * 35), kRounding);
  EXPECT_NEAR(j_from_zj(curve.least_at_price_zj(100 * kWatt)), (190 + 100), kRounding);
}

TEST(CostCurve, HasOnePointWhereSlowerSavesNothing) {
  const std::vector<profile::Measurement> measured{{1400, 1, 100}, {1200, 2, 115}};
  const CostCurve curve(measured, 10);
  EXPECT_EQ(curve.fastest_ps(), kSecond);
  EXPECT_EQ(curve.slowest_ps(), kSecond);
  EXPECT_NEAR(j_from_zj(curve.least_at_price_zj(5 * kWatt)), 95, kRounding);
}

TEST(CostCurve, EqualsTheSolversOnMeasurementsWithNoise) {
  // Two derivations that share nothing; also with clocks of equal times, and times apart by less than a picosecond.
  std::mt19937_64 random(17);
  for (int i = 0; i < 500; ++i) {
    SCOPED_TRACE("profile " + std::to_string(i));
    const double blocking_power_w = static_cast<double>(random_in(random, 0, 120));
    std::vector<profile::Measurement> measured;
    double time_s = 0.05;
    for (std::int64_t clocks = random_in(random, 1, 40); clocks > 0; --clocks) {
      const std::int64_t step = random_in(random, 0, 9);
      time_s += step == 0 ? 0 : (step == 1 ? 1e-13 : 1e-4 * static_cast<double>(random_in(random, -3, 30)));
      const double power_w = 150 + 0.01 * static_cast<double>(random_in(random, 0, 25'000));
      measured.push_back({static_cast<int>(400 + 15 * clocks), time_s, power_w * time_s});
    }
    const CostCurve curve(measured, blocking_power_w);
    const ConvexCost cost = convex_cost(pareto_options(measured, blocking_power_w));
    ASSERT_EQ(curve.fastest_ps(), cost.fastest_ps());
    ASSERT_EQ(curve.slowest_ps(), cost.slowest_ps());
    for (int k = 0; k < 20; ++k) {
      const TimePs time_ps = random_in(random, cost.fastest_ps(), cost.slowest_ps());
      EXPECT_TRUE(curve.energy_zj(time_ps) == cost.energy_zj(time_ps)) << time_ps;
    }
    EXPECT_TRUE(curve.energy_zj(cost.slowest_ps()) == cost.energy_zj(cost.slowest_ps()));
  }
}

}  // namespace
}  // namespace lowgear::planner::verifier

#include "planning/planner/verifier/proven_frontier.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "planning/planner/exact_units.h"

namespace lowgear::planner::verifier {
namespace {

using ::testing::ElementsAre;

Point point(TimePs time_s, std::int64_t energy_j) {
  return {time_s * kSecond, static_cast<EnergyZj>(energy_j) * kSecond * kWatt};
}

Line line(std::int64_t slope_w, std::int64_t intercept_j) {
  return {slope_w * kWatt, static_cast<EnergyZj>(intercept_j) * kSecond * kWatt};
}

std::vector<TimePs> chain_times_s(const ProvenFrontier& frontier) {
  std::vector<TimePs> times_s;
  for (const Point& vertex : frontier.chain()) times_s.push_back(vertex.time_ps / kSecond);
  return times_s;
}

TEST(ProvenFrontier, KeepsTheVerticesOfTheLowerChain) {
  const ProvenFrontier frontier({point(4, 40), point(1, 100), point(2, 90), point(3, 60), point(2, 80), point(5, 30)},
                                {line(1, 1)}, 0);
  EXPECT_THAT(chain_times_s(frontier), ElementsAre(1, 4, 5)) << "2 and 3 are on a line, or above";
}

TEST(ProvenFrontier, EndsWhereTotalEnergyIsLeast) {
  // With 10 W of blocking power: 110, 100, 100 and 105 J.
  const ProvenFrontier frontier({point(1, 100), point(2, 80), point(3, 70), point(4, 65)}, {line(10, 100)}, 10 * kWatt);
  EXPECT_THAT(chain_times_s(frontier), ElementsAre(1, 2));
  EXPECT_DOUBLE_EQ(frontier.energy_j(frontier.chain().back()), 100);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j(2 * kSecond), 100);
}

TEST(ProvenFrontier, IsExactWhereLinesRunThroughTheStretches) {
  const ProvenFrontier frontier({point(1, 100), point(2, 80), point(4, 60)},
                                {line(20, 120), line(10, 100), line(0, 60)}, 0);
  EXPECT_EQ(frontier.epsilon(), 0);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j(3 * kSecond), 70);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j(9 * kSecond), 60);
  EXPECT_DOUBLE_EQ(frontier.lower_bound_j(kSecond / 2), 100);
}

TEST(ProvenFrontier, MeasuresTheDistanceBetweenVertices) {
  // The lines touch both ends and cross half-way, at 1.5 s and 85 J, 5 J below the chain.
  const ProvenFrontier frontier({point(1, 100), point(2, 80)}, {line(30, 130), line(10, 100), line(0, 80)}, 0);
  EXPECT_NEAR(frontier.epsilon(), 5.0 / 85.0, 1e-12);
  const ProvenFrontier with_hidden({point(1, 100), point(2, 80)},
                                   {line(30, 130), line(20, 90), line(10, 100), line(0, 80)}, 0);
  EXPECT_EQ(with_hidden.epsilon(), frontier.epsilon()) << "a line below others changes nothing";
}

TEST(ProvenFrontier, IsInfinitelyFarWithoutABoundOnSlowerIterations) {
  const ProvenFrontier frontier({point(1, 100), point(2, 80)}, {line(20, 120)}, 10 * kWatt);
  EXPECT_TRUE(std::isinf(frontier.epsilon()));
}

TEST(ProvenFrontier, IsInfinitelyFarFromABoundBelowZero) {
  EXPECT_TRUE(std::isinf(ProvenFrontier({point(1, 100)}, {line(0, -1)}, 0).epsilon()));
}

TEST(ProvenFrontier, ComparesSlopesThatDoublesCannotTellApart) {
  // Slopes 10^12 + 1 and 10^12, over times whose products need more than 64 bits.
  const TimePs step = 1'000'000'000'000'000;
  const PowerNw slope = 1'000'000'000'000;
  const auto at = [&](int k, EnergyZj energy) { return Point{k * step, energy}; };
  const EnergyZj top = static_cast<EnergyZj>(slope) * step * 10;
  const Point middle = at(2, top - static_cast<EnergyZj>(slope) * step - 1);
  const ProvenFrontier bent({at(1, top), middle, at(3, top - 2 * static_cast<EnergyZj>(slope) * step)}, {{0, 0}}, 0);
  EXPECT_EQ(bent.chain().size(), 3U);
  const ProvenFrontier straight(
      {at(1, top), at(2, middle.energy_zj + 1), at(3, top - 2 * static_cast<EnergyZj>(slope) * step)}, {{0, 0}}, 0);
  EXPECT_EQ(straight.chain().size(), 2U);
}

}  // namespace
}  // namespace lowgear::planner::verifier
